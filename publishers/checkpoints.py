"""Leaders and positions of sinks: one row for each sink, which only the leader of its epoch updates, by compare-and-set."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from ..database.advisory_locks import SINK_LOCK_PREFIX
from ..database.connection import connect
from ..database.connections import Connection
from ..database.named_sql import named_sql
from .event_filter import EventFilter
from .sink import Checkpoint

_SQL = named_sql("icecore.publishers", "checkpoints.sql")

SILENCE_SECONDS_MAX = 30
"""A leader whose session is silent for this long (a frozen process) is replaced."""
HEARTBEAT_SECONDS = 5.0
ERROR_LENGTH_MAX = 1_000


class LeadershipLostError(Exception):
    """Another leader has taken over, and writes of this one are refused."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A replay that an operator requested; `replayed_position`: the last position that was replayed."""

    id: UUID
    from_position: int
    to_position: int
    replayed_position: int
    filter: EventFilter


@dataclass(frozen=True, slots=True)
class OperatorRequests:
    """The current requests of operators for a sink: events to skip, and a replay."""

    skips: frozenset[int]
    replay: ReplayRequest | None


class Leadership:
    """The leadership of a sink. `connection` is the session that holds the lock. The log is read on it too, so both end together."""

    def __init__(self, connection: Connection, name: str, epoch: int, position: int, broker_sequence: int) -> None:
        self.connection = connection
        self.name = name
        self.position = position
        self.broker_sequence = broker_sequence
        self._epoch = epoch
        # An earlier leader may have recorded one.
        self._error_stands = True

    async def move(self, position: int, broker_sequence: int) -> None:
        """Records that everything up to `position` is published. Raises LeadershipLostError if another process moved the row."""
        await self._write("move", position=position, broker_sequence=broker_sequence, before=self.position)
        self.position, self.broker_sequence = position, broker_sequence

    async def record_lost_events(self, position: int, broker_sequence: int) -> None:
        """Records that the sink lost events, up to `position`, that it had acknowledged."""
        await self._write("set_lost", lost_position=position, broker_sequence=broker_sequence)
        self.broker_sequence = broker_sequence

    async def report(self, error: str, blocked_position: int | None) -> None:
        self._error_stands = True
        await self._write("report", error=error[:ERROR_LENGTH_MAX].replace("\x00", ""), blocked_position=blocked_position)

    async def recovered(self) -> None:
        """Clears the error, because the sink accepts events or is up to date."""
        if self._error_stands:
            await self._write("recovered")
            self._error_stands = False

    async def check(self) -> None:
        cursor = await self.connection.execute(_SQL["is_leader"], {"name": self.name, "epoch": self._epoch})
        if await cursor.fetchone() != (True,):
            raise LeadershipLostError(self.name)

    async def checkpoint(self, position: int) -> Checkpoint | None:
        """The position with its event's id; None if the log has no such position."""
        if position == 0:
            return Checkpoint(0, None)
        cursor = await self.connection.execute(_SQL["event_id"], {"position": position})
        row = await cursor.fetchone()
        return None if row is None else Checkpoint(position, row[0])

    async def operator_requests(self) -> OperatorRequests:
        cursor = await self.connection.execute(_SQL["operator_requests"], {"name": self.name})
        row = await cursor.fetchone()
        assert row is not None
        skips, replay_id, from_position, to_position, replayed_position, event_filter = row
        replay = None
        if replay_id is not None:
            replay = ReplayRequest(replay_id, from_position, to_position, replayed_position, EventFilter.from_json(event_filter))
        return OperatorRequests(frozenset(skips), replay)

    async def move_replay(self, replay: ReplayRequest, position: int, events: int) -> None:
        """Records that the replay up to `position` is published. Does nothing if the replay was cancelled meanwhile."""
        values = {"replay_id": replay.id, "position": position, "events": events, "before": replay.replayed_position, "epoch": self._epoch}
        await self.connection.execute(_SQL["move_replay"], values)
        if position >= replay.to_position:
            everything = Jsonb(EventFilter().to_json())
            await self.connection.execute(
                _SQL["clear_lost_position"], {"name": self.name, "epoch": self._epoch, "replay_id": replay.id, "everything": everything}
            )

    async def resign(self) -> None:
        await self.connection.execute(_SQL["resign"], {"name": self.name, "epoch": self._epoch})

    async def _write(self, block: str, **values: object) -> None:
        cursor = await self.connection.execute(_SQL[block], {"name": self.name, "epoch": self._epoch, **values})
        if cursor.rowcount != 1:
            raise LeadershipLostError(self.name)


@asynccontextmanager
async def locked(dsn: str, name: str) -> AsyncIterator[Connection | None]:
    """Holds a sink's lock during the block, so that no process becomes its leader; yields None if there is a leader.

    It is a session lock, which does not work through PgBouncer in transaction mode.
    """
    async with await connect(dsn, prepare_threshold=0, application_name=f"icecore-sink-{name}") as connection:
        session = {"name": name, "lock_prefix": SINK_LOCK_PREFIX, "silence_ms": str(SILENCE_SECONDS_MAX * 1000)}
        cursor = await connection.execute(_SQL["try_lock"], session)
        row = await cursor.fetchone()
        yield connection if row is not None and row[0] else None


@asynccontextmanager
async def leading(dsn: str, name: str, start: Literal["beginning", "now"]) -> AsyncIterator[Leadership | None]:
    """Leads a sink during the block; yields None if another process leads it.

    start -- where a new sink begins.
    """
    async with locked(dsn, name) as connection:
        if connection is None:
            yield None
            return
        leader = f"{socket.gethostname()}:{os.getpid()}"
        cursor = await connection.execute(_SQL["begin"], {"name": name, "start": start, "leader": leader})
        begun = await cursor.fetchone()
        assert begun is not None
        leadership = Leadership(connection, name, *begun)
        beating = asyncio.create_task(_beat(leadership), name=f"sink-heartbeat-{name}")
        try:
            yield leadership
            await leadership.resign()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)


async def _beat(leadership: Leadership) -> None:
    """Keeps the session alive while a sink is slow to respond."""
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        await leadership.check()


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The status of a sink for operators. waiting_since -- when the oldest event that is not published yet was recorded."""

    name: str
    position: int
    head: int
    waiting_since: datetime | None
    leader: str | None
    led_since: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    blocked_position: int | None
    lost_position: int | None
    skips: int
    replay_id: UUID | None
    replay_from: int | None
    replay_to: int | None
    replay_position: int | None
    led: bool


async def sink_statuses(connection: Connection) -> list[SinkStatus]:
    """All sinks that ever had a leader. led -- whether a process holds its lock now."""
    cursor = await connection.execute(_SQL["status"], {"lock_prefix": SINK_LOCK_PREFIX})
    return [SinkStatus(*row) for row in await cursor.fetchall()]


async def skip(connection: Connection, name: str, position: int, reason: str, actor: str) -> bool:
    """Records that a sink may skip an event; False if the log has no such position. An earlier reason is not replaced."""
    await connection.execute(_SQL["skip"], {"name": name, "position": position, "reason": reason, "actor": actor})
    cursor = await connection.execute(_SQL["skipped"], {"name": name, "position": position})
    return await cursor.fetchone() is not None


async def request_replay(connection: Connection, replay_id: UUID, name: str, first: int, last: int, event_filter: EventFilter) -> None:
    """Requests that the sink's leader publish the events from `first` to `last` again."""
    values = {"replay_id": replay_id, "name": name, "from_position": first, "to_position": last, "filter": Jsonb(event_filter.to_json())}
    await connection.execute(_SQL["request_replay"], values)


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    replayed_position: int
    replayed_events: int
    finished: bool
    cancelled: bool
    last_error: str | None


async def replay_progress(connection: Connection, replay_id: UUID) -> ReplayProgress:
    cursor = await connection.execute(_SQL["replay_progress"], {"replay_id": replay_id})
    row = await cursor.fetchone()
    assert row is not None, "a requested replay is never deleted"
    return ReplayProgress(*row)


async def cancel_replay(connection: Connection, replay_id: UUID) -> None:
    """Cancels a replay unless it has finished."""
    await connection.execute(_SQL["cancel_replay"], {"replay_id": replay_id})


async def cancel_replays(connection: Connection, name: str) -> list[tuple[UUID, int]]:
    """Cancels the replays of a sink that have not finished. Returns their ids and the last position that each has published."""
    cursor = await connection.execute(_SQL["cancel_replays"], {"name": name})
    return await cursor.fetchall()
