"""Queries, one module each, over the read models."""
