"""Connections to Postgres, named SQL, and advisory locks."""
