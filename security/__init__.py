"""Secrets, and the rules for properties. It depends on `domain` and `database` only."""
