"""Single versions of tables and views: the state before and after events, and the parts that events refer to.

Rows of a version never change, and a rebuild gives equal bytes, so every read here gives the same result.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.documents import TABLE_KINDS
from ..domain.read_models.tables import KIND_NUMBERS
from .bounded_reads import BYTES_UNBOUNDED

_SQL = named_sql("icecore.projections", "versions.sql")


class TabularVersion(NamedTuple):
    """A table or view at one version. size -- the bytes of its head or document; None where they do not matter."""

    namespace_id: UUID
    name: str
    metadata_location: str
    size: int | None


class TabularChange(NamedTuple):
    """What the event at a position left, and what it found: None of a first event."""

    position: int
    after: TabularVersion
    before: TabularVersion | None


async def read_changes(connection: Connection, noun: Literal["table", "view"], positions: Sequence[int]) -> list[TabularChange]:
    """Of events of tables, or of views. The size before is read where an event replaced all of a table."""
    block = "tables_of_events" if noun == "table" else "views_of_events"
    cursor = await connection.execute(_SQL[block], {"positions": positions}, binary=True)
    return [
        TabularChange(row[0], TabularVersion(*row[1:5]), None if row[5] is None else TabularVersion(*row[5:9]))
        for row in await cursor.fetchall()
    ]


async def read_bodies(
    connection: Connection, noun: Literal["table", "view"], wanted: Sequence[tuple[UUID, int]]
) -> list[tuple[int, bytes]]:
    """Heads of tables, or documents of views, by id and version: each with its index in `wanted`."""
    block = "table_heads" if noun == "table" else "view_documents"
    parameters = {"ids": [object_id for object_id, _ in wanted], "versions": [version for _, version in wanted]}
    cursor = await connection.execute(_SQL[block], parameters, binary=True)
    return [(number, body) for number, body in await cursor.fetchall()]


class FoundSnapshot(NamedTuple):
    """A snapshot with its index in what was asked for. body -- None beyond the bytes that were asked for."""

    number: int
    size: int
    body: bytes | None


async def read_snapshots(connection: Connection, wanted: Sequence[tuple[UUID, int, int]], bytes_max: int | None) -> list[FoundSnapshot]:
    """Snapshots by table, version and id, of which each was in the table before that version.

    bytes_max -- bodies of as many as have so many bytes together, and of one more.
    """
    ids, versions, snapshot_ids = (list(column) for column in zip(*wanted, strict=True))
    bound = BYTES_UNBOUNDED if bytes_max is None else bytes_max
    kind = KIND_NUMBERS["snapshots"]
    parameters = {"ids": ids, "versions": versions, "snapshot_ids": snapshot_ids, "kind": kind, "bytes_max": bound}
    cursor = await connection.execute(_SQL["snapshots"], parameters, binary=True)
    return [FoundSnapshot(*row) for row in await cursor.fetchall()]


class RemovedPart(NamedTuple):
    """A part that an event removed; `number` is the event's. Of snapshots the body is None.

    is_read -- False for an event that comes after those that removed the bytes that were asked for: nothing else is said of it.
    """

    number: int
    is_read: bool
    table_id: UUID
    kind: str
    ordinal: int
    snapshot_id: int | None
    body: bytes | None


async def read_removed_parts(
    connection: Connection, wanted: Sequence[tuple[int, UUID, str, int]], bytes_max: int | None
) -> list[RemovedPart]:
    """Parts by the number of an event, their table, kind and ordinal, those included that no longer hold.

    bytes_max -- of as many events as removed so many bytes together, and of one more.
    """
    numbers, ids, kinds, ordinals = (list(column) for column in zip(*wanted, strict=True))
    parameters = {
        "numbers": numbers,
        "ids": ids,
        "kinds": [KIND_NUMBERS[kind] for kind in kinds],
        "ordinals": ordinals,
        "snapshots": KIND_NUMBERS["snapshots"],
        "bytes_max": BYTES_UNBOUNDED if bytes_max is None else bytes_max,
    }
    cursor = await connection.execute(_SQL["removed_parts"], parameters, binary=True)
    return [
        RemovedPart(number, is_read, table_id, TABLE_KINDS[kind - 1], ordinal, snapshot_id, body)
        for number, is_read, table_id, kind, ordinal, snapshot_id, body in await cursor.fetchall()
    ]
