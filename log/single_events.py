"""Reads single events by id or position."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.recorded import RecordedEvent

_SQL = named_sql("icecore.log", "single_events.sql")


async def read_event(connection: Connection, event_id: UUID) -> RecordedEvent | None:
    """The event with an id; None if the log has none."""
    row = await (await connection.execute(_SQL["event_by_id"], {"event_id": event_id}, binary=True)).fetchone()
    return None if row is None else RecordedEvent(*row)


async def recorded_at(connection: Connection, position: int) -> datetime | None:
    """When the event at a position was recorded; None if there is none."""
    row = await (await connection.execute(_SQL["recorded_at"], {"position": position}, binary=True)).fetchone()
    return None if row is None else row[0]


async def changed_at(connection: Connection, stream_id: UUID, up_to: int | None = None) -> datetime | None:
    """When a stream was last changed, or last up to a position; None if it was not."""
    row = await (await connection.execute(_SQL["changed_at"], {"stream_id": stream_id, "up_to": up_to}, binary=True)).fetchone()
    return None if row is None else row[0]


async def updated_at(connection: Connection, stream_ids: Sequence[UUID], up_to: int | None = None) -> dict[UUID, datetime]:
    """When streams were last changed since their creation, or last up to a position. Without those that were not."""
    rows = await connection.execute(_SQL["updated_at"], {"ids": list(stream_ids), "up_to": up_to}, binary=True)
    return dict(await rows.fetchall())
