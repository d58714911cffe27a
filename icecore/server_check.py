"""Checks a Postgres before use: its version, and that acknowledged commits survive a crash."""

from typing import NamedTuple

import structlog

from .database.connection import connect
from .database.named_sql import named_sql

SERVER_VERSION_MIN = 140000
"""Postgres 14, as `server_version_num`."""


class UnfitServerError(Exception):
    """This Postgres is unfit for the log; the message names the setting and what to do."""


class CheckedServer(NamedTuple):
    """A server that is fit. weak -- accepted settings that can lose acknowledged commits."""

    version: str
    weak: list[str]


async def check_server(dsn: str, *, unsafe_durability: bool = False) -> CheckedServer:
    """Raises UnfitServerError unless the server is Postgres 14 or later, writable and durable, and the connections of `dsn` have the
    isolation level that appends need.

    The response to a mutation is sent once its commit is acknowledged. `fsync` and `full_page_writes` must therefore be on, and
    `synchronous_commit` must not be off (`local`, `remote_write` and `remote_apply` also wait for this server's disk).

    unsafe_durability -- log a warning for settings that can lose acknowledged commits, instead of refusing them; for experiments.
    """
    async with await connect(dsn, application_name="icecore-check") as connection:
        row = await (await connection.execute(named_sql("icecore", "server_check.sql")["server_settings"])).fetchone()
    if row is None:
        raise UnfitServerError("The server did not return its settings")
    version_number, version, in_recovery, fsync, synchronous_commit, full_page_writes, isolation = row
    if version_number < SERVER_VERSION_MIN:
        raise UnfitServerError(f"Postgres {version} is too old: Icecore needs Postgres {SERVER_VERSION_MIN // 10000} or later")
    if in_recovery:
        raise UnfitServerError("This Postgres is a standby and accepts no writes; connect to its primary")
    if isolation != "read committed":
        # Our connections set it. A pooler in between drops their options.
        raise UnfitServerError(
            f"The default_transaction_isolation is {isolation}, in which acknowledged commits would be lost, though the connection asks "
            "for read committed: a pooler drops its options. Reset the setting for this role and database"
        )
    weak = [
        f"{name} is {value}"
        for name, value in (("fsync", fsync), ("synchronous_commit", synchronous_commit), ("full_page_writes", full_page_writes))
        if value == "off"
    ]
    if not weak:
        return CheckedServer(version, weak)
    if not unsafe_durability:
        raise UnfitServerError(
            f"This Postgres can lose commits it has acknowledged: {', '.join(weak)}. Turn it on (for this role and database too), "
            "or set ICECORE_UNSAFE_DURABILITY=true to accept the loss"
        )
    structlog.get_logger().warning("postgres_not_durable", advice="acknowledged commits may be lost in a crash", settings=weak)
    return CheckedServer(version, weak)
