"""Queries, a module each: they ask a read model, and add what only now can be known."""
