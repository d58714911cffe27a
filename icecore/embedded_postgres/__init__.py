"""A Postgres that comes with Icecore: a cluster of our own for one data folder (docs/decisions/0012-embedded-postgres.md)."""

from icecore.embedded_postgres.cluster import serving_dsn
from icecore.embedded_postgres.errors import EmbeddedPostgresError
from icecore.embedded_postgres.place import STATE_DIRECTORY, server_account
from icecore.embedded_postgres.server import embedded_postgres
from icecore.embedded_postgres.watch import restarted_on_failure

__all__ = ["STATE_DIRECTORY", "EmbeddedPostgresError", "embedded_postgres", "restarted_on_failure", "server_account", "serving_dsn"]
