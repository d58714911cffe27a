"""Checks a Postgres before use: its version, and that acknowledged commits survive a crash."""

import asyncio
from typing import NamedTuple

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from .database.connection import connect
from .database.named_sql import named_sql
from .database_url import database_address
from .domain.client_errors import client_error_text

_SQL = named_sql("icecore", "server_check.sql")

SERVER_VERSION_MIN = 140000
"""Postgres 14, as `server_version_num`."""
SESSIONS_SECONDS_MAX = 10.0
_ROUNDS = 6
_LIMITS = "-c lock_timeout=5s -c statement_timeout=30s"
"""Those of the connections for appends."""


class UnfitServerError(Exception):
    """This Postgres is unfit for the log; the message names the setting and what to do."""


class CheckedServer(NamedTuple):
    """A server that is fit. weak -- accepted settings that can lose acknowledged commits."""

    version: str
    weak: list[str]


class _ServerSettings(NamedTuple):
    version_number: int
    version: str
    in_recovery: bool
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    isolation: str


async def check_sessions(dsn: str) -> None:
    """Raises UnfitServerError if connections of `dsn` do not keep their session of Postgres: a pooler in between is not in
    session mode.

    Advisory locks would then belong to whoever gets the session next, and notifications would not arrive, both without an error. Also
    raises it if sessions have no time limits, although the connection asks for them: a pooler in session mode drops its options.
    """
    sessions: list[set[int]] = [set(), set()]
    try:
        async with (
            asyncio.timeout(SESSIONS_SECONDS_MAX),
            await connect(dsn, application_name="icecore-check", options=_LIMITS) as first,
            await connect(dsn, application_name="icecore-check") as second,
        ):
            # The number of statements varies, because a pooler may hand out its sessions in turn.
            for statements in range(1, _ROUNDS + 1):
                for connection, seen, times in ((first, sessions[0], 1), (second, sessions[1], statements)):
                    for _ in range(times):
                        row = await (await connection.execute(_SQL["session"], prepare=False)).fetchone()
                        assert row is not None
                        seen.add(row[0])
            unlimited = await _unlimited(first)
    except TimeoutError:
        raise UnfitServerError(
            f"Postgres, or a pooler in front of it, does not open two sessions within {SESSIONS_SECONDS_MAX:.0f} s"
        ) from None
    if sessions[0] & sessions[1] or max(map(len, sessions)) > 1:
        raise UnfitServerError(
            "A pooler in front of this Postgres is in transaction or statement mode. Locks and LISTEN would be lost, because they belong "
            "to a session: set the pooler to session mode, or connect to Postgres directly"
        )
    if unlimited:
        raise _without_limits(unlimited, "ICECORE_DATABASE_URL")


async def _unlimited(connection: AsyncConnection[TupleRow]) -> list[str]:
    """The time limits that the session lacks."""
    return [name for (name,) in await (await connection.execute(_SQL["unlimited"], prepare=False)).fetchall()]


def _without_limits(names: list[str], setting: str) -> UnfitServerError:
    return UnfitServerError(
        f"Sessions of {setting} have no {' and '.join(names)}, which connections through a pooler cannot set: a commit could wait for a "
        "lock without end. Set lock_timeout = '5s' and statement_timeout = '30s' for its role (ALTER ROLE … SET …)"
    )


async def check_server(dsn: str, pooler_dsn: str | None = None, *, unsafe_durability: bool = False) -> CheckedServer:
    """Raises UnfitServerError unless the server is Postgres 14 or later, writable and durable, and the connections of `dsn` keep their
    session and have the isolation level that appends need.

    The response to a mutation is sent once its commit is acknowledged. `fsync` and `full_page_writes` must therefore be on, and
    `synchronous_commit` must not be off (`local`, `remote_write` and `remote_apply` also wait for this server's disk).

    pooler_dsn -- the same database through PgBouncer in transaction mode; its connections are checked too.
    unsafe_durability -- log a warning for settings that can lose acknowledged commits, instead of refusing them; for experiments.
    """
    await _check_connections(dsn, pooler_dsn)
    if pooler_dsn is not None:
        _check_writable(await _server_settings(pooler_dsn, transaction_pooled=True), unsafe_durability=unsafe_durability)
    return _check_writable(await _server_settings(dsn), unsafe_durability=unsafe_durability)


async def check_server_for_reads(dsn: str, pooler_dsn: str | None = None) -> CheckedServer:
    """Raises UnfitServerError as `check_server`, but the server may be a standby: commits are acknowledged elsewhere."""
    await _check_connections(dsn, pooler_dsn)
    if pooler_dsn is not None:
        await _server_settings(pooler_dsn, transaction_pooled=True)
    return CheckedServer((await _server_settings(dsn)).version, [])


async def check_primary(dsn: str) -> None:
    """Raises UnfitServerError if the server is a standby."""
    _refuse_standby(await _server_settings(dsn))


async def check_owner(dsn: str, owner_dsn: str) -> None:
    """Raises UnfitServerError unless both lead to the same database of the same server. Another one would get the schema of the catalog."""
    async with (
        await connect(dsn, application_name="icecore-check") as serving,
        await connect(owner_dsn, application_name="icecore-check") as owning,
    ):
        if await _database(serving) != await _database(owning):
            raise UnfitServerError(
                "ICECORE_DATABASE_OWNER_URL and ICECORE_DATABASE_URL name different databases: both must name that of the catalog, "
                "with the owner's role and the server's"
            )


async def may_set_up(dsn: str) -> bool:
    """Whether the role may create the schema of the catalog, or owns it."""
    async with await connect(dsn, application_name="icecore-check") as connection:
        return await (await connection.execute(_SQL["may_set_up"])).fetchone() == (True,)


async def _database(connection: AsyncConnection[TupleRow]) -> TupleRow | None:
    """What distinguishes a database from others, also from those of other servers."""
    return await (await connection.execute(_SQL["database_identity"])).fetchone()


async def _check_connections(dsn: str, pooler_dsn: str | None) -> None:
    await check_sessions(dsn)
    if pooler_dsn is not None:
        await _check_pooler(dsn, pooler_dsn)


async def _check_pooler(dsn: str, pooler_dsn: str) -> None:
    """Raises UnfitServerError unless both lead to the same database of the same server, and the sessions of the pooler have time limits."""
    async with (
        await connect(dsn, application_name="icecore-check") as direct,
        await _connect_to_pooler(pooler_dsn) as through_pooler,
    ):
        databases = [await _database(direct), await _database(through_pooler)]
        unlimited = await _unlimited(through_pooler)
    if databases[0] != databases[1]:
        raise UnfitServerError("The database of ICECORE_DATABASE_POOLER_URL is not that of ICECORE_DATABASE_URL")
    if unlimited:
        raise _without_limits(unlimited, "ICECORE_DATABASE_POOLER_URL")


async def _connect_to_pooler(pooler_dsn: str) -> AsyncConnection[TupleRow]:
    try:
        return await connect(pooler_dsn, application_name="icecore-check", transaction_pooled=True)
    except psycopg.OperationalError as error:
        reason = client_error_text(error, database_address(pooler_dsn))
        raise UnfitServerError(f"The database of ICECORE_DATABASE_POOLER_URL cannot be reached: {reason}") from None


async def _server_settings(dsn: str, *, transaction_pooled: bool = False) -> _ServerSettings:
    """Raises UnfitServerError unless the server is Postgres 14 or later and the session reads committed data."""
    async with await connect(dsn, application_name="icecore-check", transaction_pooled=transaction_pooled) as connection:
        row = await (await connection.execute(_SQL["server_settings"])).fetchone()
    if row is None:
        raise UnfitServerError("The server did not return its settings")
    settings = _ServerSettings(*row)
    if settings.version_number < SERVER_VERSION_MIN:
        raise UnfitServerError(f"Postgres {settings.version} is too old: Icecore needs Postgres {SERVER_VERSION_MIN // 10000} or later")
    if settings.isolation != "read committed":
        # Our connections set it. A pooler in between drops their options. A standby refuses statements that are serializable.
        raise UnfitServerError(
            f"The default_transaction_isolation is {settings.isolation}, in which acknowledged commits would be lost, though the "
            "connection asks for read committed: a pooler drops its options. Reset the setting for this role and database"
        )
    return settings


def _refuse_standby(settings: _ServerSettings) -> None:
    if settings.in_recovery:
        raise UnfitServerError("This Postgres is a standby and accepts no writes; connect to its primary")


def _check_writable(settings: _ServerSettings, *, unsafe_durability: bool) -> CheckedServer:
    _refuse_standby(settings)
    weak = [
        f"{name} is {value}"
        for name, value in (
            ("fsync", settings.fsync),
            ("synchronous_commit", settings.synchronous_commit),
            ("full_page_writes", settings.full_page_writes),
        )
        if value == "off"
    ]
    if not weak:
        return CheckedServer(settings.version, weak)
    if not unsafe_durability:
        raise UnfitServerError(
            f"This Postgres can lose commits it has acknowledged: {', '.join(weak)}. Turn it on (for this role and database too), "
            "or set ICECORE_UNSAFE_DURABILITY=true to accept the loss"
        )
    structlog.get_logger().warning("postgres_not_durable", advice="acknowledged commits may be lost in a crash", settings=weak)
    return CheckedServer(settings.version, weak)
