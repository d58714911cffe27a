"""The write side: one module per command; the committer; the event store."""
