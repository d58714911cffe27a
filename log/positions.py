"""Converts a position or time from a client to a position of the log."""

from datetime import datetime

from psycopg import errors

from ..database.advisory_locks import AdvisoryLock, wait_for_holders
from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import ServiceUnavailable
from .head import is_standby

_SQL = named_sql("icecore.log", "positions.sql")

# The same number is in database/advisory_locks.sql.
APPENDS_WAIT_SECONDS_MAX = 2


async def position_not_after(connection: Connection, position: int) -> int:
    """`position` rounded down to the end of a command, so that no read shows a part of one; 0 before the first."""
    row = await (await connection.execute(_SQL["position_not_after"], {"as_of": position})).fetchone()
    return (row and row[0]) or 0


async def position_at(connection: Connection, at: datetime) -> int | None:
    """The position that the log had reached at a time, which never changes: 0 before the first event, None for a future time.

    `connection` is in autocommit. An append in flight may have been recorded up to now, so a time later than the last event waits for it.
    Raises ServiceUnavailable if that takes longer than APPENDS_WAIT_SECONDS_MAX, and on a standby, which does not know of appends in
    flight. Times are those of Postgres's clock: if it is set back, later events may be recorded before a time that was converted already.
    """
    row = await (await connection.execute(_SQL["beyond"], {"at": at})).fetchone()
    assert row is not None
    is_after_last_event, is_to_come = row
    if is_to_come:
        return None
    if is_after_last_event:
        if await is_standby(connection):
            raise ServiceUnavailable(
                "The standby has replayed no event after that time, so commits before it may still arrive: the position of an event, or an "
                "earlier time, can be read",
                retry_after_seconds=1,
            )
        await appends_in_flight(connection)
    row = await (await connection.execute(_SQL["position_at"], {"at": at})).fetchone()
    return (row and row[0]) or 0


async def appends_in_flight(connection: Connection) -> None:
    """Returns once every append in progress has ended. Raises ServiceUnavailable after APPENDS_WAIT_SECONDS_MAX.

    A slow caller does not delay later appends: the lock is held only while Postgres runs the statement.
    """
    try:
        await wait_for_holders(connection, AdvisoryLock.APPEND)
    except errors.LockNotAvailable:
        raise ServiceUnavailable("The log cannot be read up to that time yet: commits are in progress", retry_after_seconds=1) from None
