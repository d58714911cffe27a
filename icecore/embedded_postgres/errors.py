"""Errors of the embedded Postgres, with messages for the operator."""


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used; the message says why and what to do."""
