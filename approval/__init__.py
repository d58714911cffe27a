"""Approval hooks: they review a change before it is committed."""
