"""Opens connections to Postgres with the same options everywhere."""

from typing import Any

from psycopg import AsyncConnection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from .named_sql import named_sql

_SQL = named_sql("icecore.database", "connection.sql")

# Compiling a statement takes longer than running it: all of ours are short, and the long ones read rows as they stand.
# In a higher isolation level whoever waited for the append lock would not see what its holder wrote.
OPTIONS = r"-c jit=off -c default_transaction_isolation=read\ committed"


def with_options(dsn: str, options: str = "") -> str:
    """`dsn` with the options of all our connections and `options` (`-c name=value …`) behind those it already names.

    A pooler that does not know options in a startup packet must ignore them (PgBouncer: `ignore_startup_parameters = options`).
    """
    given = conninfo_to_dict(dsn).get("options") or ""
    return make_conninfo(dsn, options=" ".join(part for part in (str(given), OPTIONS, options) if part))


async def connect(
    dsn: str, *, autocommit: bool = True, prepare_threshold: int | None = 5, options: str = "", **more: Any
) -> AsyncConnection[TupleRow]:
    """A connection with our options; `more` are parameters of libpq, for example `application_name`."""
    connection = await AsyncConnection.connect(
        with_options(dsn, options), autocommit=autocommit, prepare_threshold=prepare_threshold, **more
    )
    # Transactions that are begun by psycopg say so themselves, in case a pooler drops the options.
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    return connection


async def lift_time_limits(connection: AsyncConnection[TupleRow], *, local: bool = False) -> None:
    """For work that takes as long as the log is: limits that the role or the database has for requests do not hold for it, as with pg_dump.

    local -- for the transaction alone.
    """
    await connection.execute(_SQL["lift_time_limits"], {"local": local})
