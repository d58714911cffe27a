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
    """Who holds a lock, and how long."""

    APPEND = 4936203174
    """Held by `icecore.append` until its transaction ends, and by a rebuild while it switches generations. Shared: to wait for appends."""
    PURGE_JOB = 4936203175
    """Held by the one process that purges tables (commands/tables/purge_tables.py), for a round."""
    REBUILD = 4936203176
    """Held by a rebuild, by its session."""
    SETTLE_PARTS_JOB = 4936203177
    """Held by the one process that closes parts (commands/tables/close_removed_parts.py), for a round; by a rebuild while it
    deletes rows."""
    EXPIRE_PROPOSALS_JOB = 4936203178
    """Held by the one process that expires proposals, for a round."""
    REBUILD_PARTS = 4936203179
    """Shared by the processes of a rebuild that copy rows, by their sessions: free when none is left."""
    OLD_METADATA_FILES_JOB = 4936203180
    """Held by the one process that deletes old metadata files (commands/tables/delete_old_metadata_files.py), for a round."""
    CREATE_WAREHOUSE = 4936203181
    """Held while a warehouse is created, from the look at the others' places to the answer (commands/warehouses/create_warehouse.py)."""
    STATISTICS = 4936203182
    """Held by the one process that counts statistics (projections/asynchronous/statistics.py), by its session."""
    MIGRATIONS = 29664159665713765
    """'icecore' in ASCII. Held while migrations are applied or rights are granted, until the transaction ends."""


SINK_LOCK_PREFIX = "icecore.sink."
"""With a sink's name behind it, hashed (`hashtextextended`, seed 0): the lock of the sink's leader, held by its session."""


async def try_lock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Takes the lock for the session unless another has it; whether it did."""
    return await _answer(connection, "try_lock", lock)


async def lock_session(connection: Connection, lock: AdvisoryLock) -> None:
    """Waits for the lock and takes it for the session."""
    await connection.execute(_SQL["lock_session"], {"lock": lock})


async def lock_session_shared(connection: Connection, lock: AdvisoryLock) -> None:
    """The same beside others that take it shared."""
    await connection.execute(_SQL["lock_session_shared"], {"lock": lock})


async def lock_transaction(connection: Connection, lock: AdvisoryLock) -> None:
    """Waits for the lock and takes it until the transaction ends."""
    await connection.execute(_SQL["lock_transaction"], {"lock": lock})


async def unlock(connection: Connection, lock: AdvisoryLock) -> bool:
    """Releases a lock of the session; false where the session did not hold it."""
    return await _answer(connection, "unlock", lock)


async def holds(connection: Connection, lock: AdvisoryLock) -> bool:
    """Whether the session holds the lock."""
    return await _answer(connection, "holds", lock)


async def wait_for_holders(connection: Connection, lock: AdvisoryLock) -> None:
    """Returns once whoever held the lock has released it; `connection` is in autocommit.

    Whoever asks for the lock later waits only while Postgres runs the statement, however slow the caller is. Raises
    psycopg.errors.LockNotAvailable after two seconds.
    """
    # Two statements in one message: they cannot be prepared and take no parameters.
    await connection.execute(sql.SQL(_SQL["wait_for_holders"]).format(lock=sql.Literal(int(lock))), prepare=False)


async def _answer(connection: Connection, block: str, lock: AdvisoryLock) -> bool:
    return await (await connection.execute(_SQL[block], {"lock": lock})).fetchone() == (True,)
