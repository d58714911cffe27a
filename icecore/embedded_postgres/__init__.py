"""The embedded Postgres: one cluster for one data folder (docs/decisions/0012-embedded-postgres.md)."""

from .cluster import serving_dsn
from .cluster_directories import STATE_DIRECTORY, server_account
from .errors import DataFolderError, EmbeddedPostgresError
from .server import embedded_postgres
from .watch import restarted_on_failure

__all__ = [
    "STATE_DIRECTORY",
    "DataFolderError",
    "EmbeddedPostgresError",
    "embedded_postgres",
    "restarted_on_failure",
    "server_account",
    "serving_dsn",
]
