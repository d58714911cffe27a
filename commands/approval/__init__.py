"""Hooks that can veto a change, and proposals: changes that wait for somebody's approval."""
