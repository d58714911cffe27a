"""Reads the changes in the log since a position, by which a process invalidates its caches."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID
from weakref import WeakSet

from psycopg import errors
from psycopg.abc import PQGen
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.log", "changes.sql")

# Events per statement; the same number is in changes.sql.
CHANGES_PAGE_SIZE = 100
# After this many changes, a cache is emptied instead of invalidated entry by entry.
CHANGES_MAX = 10_000

_CHANGES = b"icecore_changes"
_prepared: WeakSet[Connection] = WeakSet()


@dataclass(frozen=True, slots=True)
class LogChanges:
    """The changes after a head.

    complete -- False if there are CHANGES_MAX or more. restored -- the log does not contain that head: the database was restored to an
    earlier point, and what was read before may no longer exist.
    """

    generation: int
    head: "LogHead"
    events: list[tuple[UUID, str]]
    complete: bool
    restored: bool


class LogHead(NamedTuple):
    """The last event of the log: its position, and its id, which differs from that of another event at the same position."""

    position: int
    event_id: UUID | None


async def read_changes(connection: Connection, after: LogHead) -> LogChanges:
    """The events after `after`, each as stream and topic.

    It uses psycopg's generators without a cursor, which would take four times as long: all reads of a process wait for this statement.
    """
    may_prepare = connection.prepare_threshold is not None
    if may_prepare and connection not in _prepared:
        await connection.wait(_prepare(connection.pgconn))
        _prepared.add(connection)
    head, events = after, list[tuple[UUID, str]]()
    while True:
        result = await connection.wait(_changes(connection.pgconn, head.position, may_prepare=may_prepare))
        restored = _id(result, 0, 5) != head.event_id
        page = [_event(result, row) for row in range(result.ntuples) if result.get_value(row, 1) is not None]
        if page:
            head = LogHead(page[-1][0], _id(result, len(page) - 1, 4))
            events += [(stream_id, topic) for _, stream_id, topic in page]
        if restored or len(page) < CHANGES_PAGE_SIZE or len(events) >= CHANGES_MAX:
            return LogChanges(_number(result, 0, 0), head, events, len(events) < CHANGES_MAX, restored)


def _prepare(pgconn: PGconn) -> PQGen[None]:
    pgconn.send_prepare(_CHANGES, _SQL["changes"].encode())
    yield from _only_result(pgconn, ExecStatus.COMMAND_OK)


def _changes(pgconn: PGconn, after: int, *, may_prepare: bool) -> PQGen[PGresult]:
    parameters = (after.to_bytes(8, "big"),)
    if may_prepare:
        pgconn.send_query_prepared(_CHANGES, parameters, param_formats=(Format.BINARY,), result_format=Format.BINARY)
    else:
        # The session of the next statement may have prepared nothing.
        pgconn.send_query_params(_SQL["changes"].encode(), parameters, param_formats=(Format.BINARY,), result_format=Format.BINARY)
    return (yield from _only_result(pgconn, ExecStatus.TUPLES_OK))


def _only_result(pgconn: PGconn, expected: ExecStatus) -> PQGen[PGresult]:
    # A pooler may add its own error to that of Postgres.
    results: list[PGresult] = yield from execute(pgconn)
    for result in results:
        if result.status != expected:
            raise errors.error_from_result(result)
    return results[0]


def _event(result: PGresult, row: int) -> tuple[int, UUID, str]:
    """Position, stream and topic."""
    stream_id, topic = (result.get_value(row, column) or b"" for column in (2, 3))
    return _number(result, row, 1), UUID(bytes=stream_id), topic.decode()


def _id(result: PGresult, row: int, column: int) -> UUID | None:
    value = result.get_value(row, column)
    return None if value is None else UUID(bytes=value)


def _number(result: PGresult, row: int, column: int) -> int:
    return int.from_bytes(result.get_value(row, column) or b"", "big")


async def read_head(connection: Connection) -> tuple[int, LogHead]:
    """The generation of the read models, and the last event."""
    cursor = await connection.execute(_SQL["head"], binary=True)
    row = await cursor.fetchone()
    assert row is not None, "a migrated database has its read models' row"
    return row[0], LogHead(row[1], row[2])


async def read_last_event_id(connection: Connection, stream_id: UUID) -> UUID | None:
    """The id of a stream's last event; None if the stream has no events."""
    row = await (await connection.execute(_SQL["last_event_id"], {"stream_id": stream_id})).fetchone()
    return None if row is None else row[0]
