"""Secrets, and the rules for properties and credentials; stands on `domain` and `database` alone."""
