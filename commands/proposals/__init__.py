"""Proposals: changes that wait for approval; they are opened, approved, rejected and expired."""
