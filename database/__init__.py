"""Connections to Postgres, named SQL, and the numbers of advisory locks."""
