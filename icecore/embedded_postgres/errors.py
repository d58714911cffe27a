"""What is wrong with the embedded Postgres, in words for the operator."""


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used; the message says why and what to do."""
