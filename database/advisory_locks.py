"""Icecore's advisory locks: their numbers, and the statements that take and release them.

A number keeps its purpose forever, because processes of two versions can run at the same time. Functions in the database use the numbers
too; tests/tidy/test_advisory_locks.py compares them.
"""

from enum import IntEnum, unique

from psycopg import sql

from .named_sql import named_sql
from .postgres import Connection

_SQL = named_sql("icecore.database", "advisory_locks.sql")


@unique
class AdvisoryLock(IntEnum):
    """Each lock with its holder and how long it is held."""

    APPEND = 4936203174
    """Held by `icecore.append` until its transaction ends, and by a rebuild while it switches generations. Shared: to wait for appends."""
    PURGE_JOB = 4936203175
    """Held by the one process that purges tables (commands/tables/purge_tables.py), for a round."""
    REBUILD = 4936203176
    """Held by a rebuild, by its session."""
    CLOSE_PARTS_JOB = 4936203177
    """Held by the one process that closes parts (commands/tables/close_removed_parts.py), for a round; by a rebuild while it
    deletes rows."""
    EXPIRE_PROPOSALS_JOB = 4936203178
    """Held by the one process that expires proposals, for a round."""
    REBUILD_PARTS = 4936203179
    """Held, shared, by the sessions of a rebuild that copy rows. It is free when none of them is left."""
    OLD_METADATA_FILES_JOB = 4936203180
    """Held by the one process that deletes old metadata files (commands/tables/delete_old_metadata_files.py), for a round."""
    CREATE_WAREHOUSE = 4936203181
    """Held while a warehouse is created, from the check of other warehouses' locations to the response
    (commands/warehouses/create_warehouse.py).
    """
    STATISTICS = 4936203182
    """Held by the one process that counts statistics (projections/asynchronous/statistics.py), by its session."""
    EXPIRE_SOFT_DELETED_JOB = 4936203183
    """Held by the one process that expires soft-deleted tables and views (commands/tabulars/expire_soft_deleted.py), for a round."""
    SEARCH = 4936203184
    """Held by the one process that indexes names for the search (projections/asynchronous/search.py), by its session."""
    METRICS_REPORTS = 4936203185
    """Held while metrics reports are inserted, until the statement's transaction ends (commands/tables/metrics_reports.sql)."""
    MIGRATIONS = 29664159665713765
    """'icecore' in ASCII. Held while migrations are applied or rights are granted, until the transaction ends."""


SINK_LOCK_PREFIX = "icecore.sink."
"""The lock of a sink's leader, held by its session. The key is the hash of this prefix and the sink's name (`hashtextextended`, seed 0)."""


async def try_lock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Takes the lock for the session and returns True, or False if another session holds it."""
    return await _call(connection, "try_lock", lock)


async def lock_session(connection: Connection, lock: AdvisoryLock) -> None:
    """Waits for the lock and takes it for the session."""
    await connection.execute(_SQL["lock_session"], {"lock": lock})


async def lock_session_shared(connection: Connection, lock: AdvisoryLock) -> None:
    """As `lock_session`, shared with others that lock it shared."""
    await connection.execute(_SQL["lock_session_shared"], {"lock": lock})


async def lock_transaction(connection: Connection, lock: AdvisoryLock) -> None:
    """Waits for the lock and takes it until the transaction ends."""
    await connection.execute(_SQL["lock_transaction"], {"lock": lock})


async def unlock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Releases a lock of the session; False if the session did not hold it."""
    return await _call(connection, "unlock", lock)


async def holds(connection: Connection, lock: AdvisoryLock) -> bool:
    """Whether the session holds the lock."""
    return await _call(connection, "holds", lock)


async def wait_for_holders(connection: Connection, lock: AdvisoryLock) -> None:
    """Returns once the current holder has released the lock; `connection` is in autocommit.

    Sessions that request the lock later wait only while Postgres runs the statement, even if the caller is slow. Raises
    psycopg.errors.LockNotAvailable after two seconds.
    """
    # Two statements in one message: they cannot be prepared and take no parameters.
    await connection.execute(sql.SQL(_SQL["wait_for_holders"]).format(lock=sql.Literal(int(lock))), prepare=False)


async def _call(connection: Connection, block: str, lock: AdvisoryLock) -> bool:
    return await (await connection.execute(_SQL[block], {"lock": lock})).fetchone() == (True,)
