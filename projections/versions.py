"""Single versions of tables and views: the state before and after events, and the parts that events refer to.

Rows of a version never change, and a rebuild results in equal bytes, so every read has the same result.
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
    """A table or view at one version. size -- the bytes of its head or document; None if not needed."""

    namespace_id: UUID
    name: str
    metadata_location: str
    size: int | None


class TabularChange(NamedTuple):
    """The versions after and before the event at a position; None before a first event."""

    position: int
    after: TabularVersion
    before: TabularVersion | None


async def read_changes(connection: Connection, kind: Literal["table", "view"], positions: Sequence[int]) -> list[TabularChange]:
    """Reads the changes of events of tables, or of views. The size before is read if an event replaced the whole table."""
    block = "tables_of_events" if kind == "table" else "views_of_events"
    cursor = await connection.execute(_SQL[block], {"positions": positions}, binary=True)
    return [
        TabularChange(row[0], TabularVersion(*row[1:5]), None if row[5] is None else TabularVersion(*row[5:9]))
        for row in await cursor.fetchall()
    ]


async def read_bodies(
    connection: Connection, kind: Literal["table", "view"], wanted: Sequence[tuple[UUID, int]]
) -> list[tuple[int, bytes]]:
    """Reads heads of tables, or documents of views, by id and version. Each is returned with its index in `wanted`."""
    block = "table_heads" if kind == "table" else "view_documents"
    parameters = {"ids": [object_id for object_id, _ in wanted], "versions": [version for _, version in wanted]}
    cursor = await connection.execute(_SQL[block], parameters, binary=True)
    return [(number, body) for number, body in await cursor.fetchall()]


class FoundSnapshot(NamedTuple):
    """A snapshot with its index in the request. body -- None beyond the limit on bytes."""

    number: int
    size: int
    body: bytes | None


async def read_snapshots(connection: Connection, wanted: Sequence[tuple[UUID, int, int]], bytes_max: int | None) -> list[FoundSnapshot]:
    """Reads snapshots by table, version and id; each was in the table before that version.

    bytes_max -- limit on the bodies read, plus one.
    """
    ids, versions, snapshot_ids = (list(column) for column in zip(*wanted, strict=True))
    bound = BYTES_UNBOUNDED if bytes_max is None else bytes_max
    kind = KIND_NUMBERS["snapshots"]
    parameters = {"ids": ids, "versions": versions, "snapshot_ids": snapshot_ids, "kind": kind, "bytes_max": bound}
    cursor = await connection.execute(_SQL["snapshots"], parameters, binary=True)
    return [FoundSnapshot(*row) for row in await cursor.fetchall()]


class RemovedPart(NamedTuple):
    """A part that an event removed; `number` is the event's. For snapshots, the body is None.

    is_read -- False for an event beyond the limit on bytes, whose parts were not read.
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
    """Reads parts by the number of an event, their table, kind and ordinal, including parts that are closed.

    bytes_max -- limit on the bytes of the parts read, plus those of one event.
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
