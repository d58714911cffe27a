"""Opens connections to Postgres with the same options everywhere."""

from typing import Any

from psycopg import AsyncConnection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from .host_lists import primary_first, remember_primary
from .named_sql import named_sql

_SQL = named_sql("icecore.database", "connection.sql")

CONNECT_TIMEOUT_SECONDS = 5
"""Limit on opening a connection, for each address of the host. psycopg's own is over two minutes."""
NETWORK_OPTIONS: dict[str, Any] = {"tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 2}
"""Against hosts that disappear without a word: a timeout for data that is not acknowledged, in milliseconds, and keepalives.

The timeout also ends a connection whose other side does not read what is sent for so long, as Postgres may during a COPY.
"""
# JIT is off, because compiling our short statements takes longer than running them. Above read committed, a statement that waited for the
# append lock would not see the rows of the previous holder.
OPTIONS = r"-c jit=off -c default_transaction_isolation=read\ committed"


def with_options(dsn: str, options: str = "") -> str:
    """`dsn` with the options of all connections, then `options` (`-c name=value …`), after those it already has.

    A pooler that does not know options in a startup packet must ignore them (PgBouncer: `ignore_startup_parameters = options`).
    """
    given = conninfo_to_dict(dsn).get("options") or ""
    return make_conninfo(dsn, options=" ".join(part for part in (str(given), OPTIONS, options) if part))


async def connect(
    dsn: str,
    *,
    autocommit: bool = True,
    prepare_threshold: int | None = 5,
    options: str = "",
    transaction_pooled: bool = False,
    **more: Any,
) -> AsyncConnection[TupleRow]:
    """Opens a connection with the common options; `more` are parameters of libpq, for example `application_name`.

    A `connect_timeout` of the URL takes precedence over that of `more` and over CONNECT_TIMEOUT_SECONDS. So do its NETWORK_OPTIONS.

    transaction_pooled -- `dsn` points to PgBouncer in transaction mode. Each transaction may use another session of Postgres, so nothing is
        prepared, and the options must be set on the role.
    """
    if transaction_pooled:
        prepare_threshold = None
    else:
        dsn = with_options(dsn, options)
    given = conninfo_to_dict(dsn)
    limits = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **NETWORK_OPTIONS}
    more = {name: value for name, value in (limits | more).items() if name not in limits or name not in given}
    connection = await AsyncConnection.connect(primary_first(dsn), autocommit=autocommit, prepare_threshold=prepare_threshold, **more)
    remember_primary(dsn, connection)
    # psycopg's own transactions set the isolation level explicitly, in case a pooler drops the options.
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    return connection


async def lift_time_limits(connection: AsyncConnection[TupleRow], *, local: bool = False) -> None:
    """Removes the role's or database's time limits on statements, for work whose duration depends on the size of the log. pg_dump does the
    same.

    local -- for the current transaction only.
    """
    await connection.execute(_SQL["lift_time_limits"], {"local": local})


async def end_when_idle(connection: AsyncConnection[TupleRow], seconds_max: float) -> None:
    """Makes Postgres end the session once it is idle for this long.

    A statement sets this, because a pooler in session mode drops the options of connections.
    """
    await connection.execute(_SQL["end_when_idle"], {"limit": f"{seconds_max * 1000:.0f}ms"})
