"""Proposals: changes that wait for somebody's approval, opened, approved, rejected and expired."""
