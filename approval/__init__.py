"""Approval: the hooks that look at a change before it takes effect, and what they are shown."""
