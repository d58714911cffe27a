"""What has come into the log since a position: how a process's memory learns what it must forget."""

from dataclasses import dataclass
from uuid import UUID

from migrations.named_sql import named_sql
from projections.postgres import Connection

_SQL = named_sql("projections", "log_changes.sql")

# Beyond this many a memory is emptied rather than mended.
CHANGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class LogChanges:
    """`head` is the position that was reached; `complete` is false where more came than CHANGES_MAX."""

    generation: int
    head: int
    streams: list[tuple[UUID, str]]
    complete: bool


async def read_changes(connection: Connection, after: int) -> LogChanges:
    """The streams, with the topics, of every event after `after`."""
    cursor = await connection.execute(_SQL["changes"], {"after": after, "limit": CHANGES_MAX}, binary=True)
    rows = await cursor.fetchall()
    events = [(stream_id, topic) for _, position, stream_id, topic in rows if position is not None]
    return LogChanges(rows[0][0], rows[-1][1] or after, events, len(events) < CHANGES_MAX)


async def read_head(connection: Connection) -> tuple[int, int]:
    """(generation, position of the last event)."""
    cursor = await connection.execute(_SQL["head"], binary=True)
    row = await cursor.fetchone()
    assert row is not None, "a migrated database has its read models' row"
    return row[0], row[1]
