"""Approval: hooks that review a change before it is committed."""
