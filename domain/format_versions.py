"""The format versions of tables that Icecore supports (Iceberg table spec)."""

FORMAT_VERSIONS = (1, 2, 3)
FORMAT_VERSION_MAX = max(FORMAT_VERSIONS)
FORMAT_VERSION_DEFAULT = 2
"""Of a table whose request names none, as in Java."""
