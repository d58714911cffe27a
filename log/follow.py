"""Follows the log: yields every event after a position, in order, once, as soon as it is committed.

Positions have no gaps and follow the order of commits (migrations/functions/append.sql), so a subscriber reads after its last position
and misses nothing.
"""

import asyncio
from collections.abc import AsyncGenerator

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from ..database.connection import connect
from ..database.named_sql import named_sql
from ..database.outage_log import OutageLog
from ..domain.client_errors import client_error_text
from ..domain.events import data_size, is_large
from ..domain.recorded import RecordedEvent
from .head import is_standby

_SQL = named_sql("icecore.log", "follow.sql")

BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 16 * 1024 * 1024
# NOTIFY wakes a subscriber; if one is lost, the delay is at most this.
POLL_SECONDS_MAX = 1.0
STANDBY_POLL_SECONDS = 0.1
_STOP_CHECK_SECONDS = 0.1
_RECONNECT_SECONDS_MIN = 0.1
_RECONNECT_SECONDS_MAX = 2.0


async def read_events(
    connection: AsyncConnection[TupleRow], after: int, limit: int = BATCH_EVENTS_MAX, *, bytes_max: int | None = None
) -> list[RecordedEvent]:
    """At most `limit` events after the position `after`, in order; an empty list at the end of the log.

    bytes_max -- limit on their data as JSON; at least one event is returned. None: BATCH_BYTES_MAX.
    """
    bytes_max = BATCH_BYTES_MAX if bytes_max is None else bytes_max
    parameters = {"after": after, "limit": limit, "bytes_max": bytes_max}
    cursor = await connection.execute(_SQL["events_after"], parameters, binary=True)
    events = [RecordedEvent(*row) for row in await cursor.fetchall()]
    if len(events) == 1:
        return events
    # Stored data may be deflated, and the database compares their stored size.
    inflated = 0
    for number, event in enumerate(events):
        inflated += await asyncio.to_thread(data_size, event.data) if is_large(event.data) else len(event.data)
        if number and inflated > bytes_max:
            return events[:number]
    return events


async def follow_events(
    dsn: str, after: int, *, batch_events_max: int = BATCH_EVENTS_MAX, stop: asyncio.Event | None = None
) -> AsyncGenerator[RecordedEvent, None]:
    """Yields every event after the position `after`, then each new one, until `stop` is set (None: until the caller stops).

    A standby, which sends no notifications, is read every STANDBY_POLL_SECONDS. A lost connection is opened again. No event is missed or
    repeated.
    """
    pause_seconds = _RECONNECT_SECONDS_MIN
    outage = OutageLog("icecore.follow", "subscriber_reconnecting", "subscriber_reconnected")
    while not _set(stop):
        try:
            async with await connect_subscriber(dsn) as connection:
                polls = await is_standby(connection)
                if not polls:
                    await listen(connection)
                pause_seconds = _RECONNECT_SECONDS_MIN
                while not _set(stop):
                    events = await read_events(connection, after, batch_events_max)
                    outage.succeeded()
                    for event in events:
                        yield event
                        after = event.position
                        if _set(stop):
                            return
                    if not events and polls:
                        await asyncio.sleep(STANDBY_POLL_SECONDS)
                    elif not events:
                        await wait_for_events(connection, stop)
        except psycopg.OperationalError as error:
            outage.failed(after=after, error=client_error_text(error))
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _RECONNECT_SECONDS_MAX)


async def listen(connection: AsyncConnection[TupleRow]) -> None:
    """Makes the connection receive a notification of every append from now on."""
    await connection.execute(_SQL["listen"])


async def connect_subscriber(dsn: str) -> AsyncConnection[TupleRow]:
    """Opens a connection that reads the log, without notifications."""
    return await connect(dsn, prepare_threshold=0, application_name="icecore-subscriber")


async def connect_listener(dsn: str) -> AsyncConnection[TupleRow]:
    """As `connect_subscriber`, with notifications of appends. Events that were committed before are found by the first read."""
    connection = await connect_subscriber(dsn)
    try:
        await listen(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def wait_for_events(connection: AsyncConnection[TupleRow], stop: asyncio.Event | None) -> None:
    """Returns after an append, after POLL_SECONDS_MAX, or when `stop` is set."""
    if stop is None:
        async for _ in connection.notifies(timeout=POLL_SECONDS_MAX, stop_after=1):
            pass
        return
    end = asyncio.get_running_loop().time() + POLL_SECONDS_MAX
    while not stop.is_set() and asyncio.get_running_loop().time() < end:
        # To the end of the generator, which holds the connection's lock.
        if [each async for each in connection.notifies(timeout=_STOP_CHECK_SECONDS, stop_after=1)]:
            return


def _set(stop: asyncio.Event | None) -> bool:
    return stop is not None and stop.is_set()
