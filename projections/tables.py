"""Tables: a small head for each version, parts that are valid from one version to another, and their queries."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.byte_pieces import Content, content_of
from ..domain.documents import (
    TABLE_KINDS,
    Document,
    Json,
    Part,
    assemble,
    document_pieces,
    head_alone,
    part_from_body,
    table_head_value,
)
from ..domain.read_models.tables import KIND_NUMBERS
from ..domain.table import TableState
from .bounded_reads import BYTES_UNBOUNDED, LargeDocument, decoded

_SQL = named_sql("icecore.projections", "tables.sql")
# In the rows of `heads`.
_HEAD_COLUMN = 11
# Takes a few milliseconds.
_PARTS_ASSEMBLED_INLINE_MAX = 1_000
# By one statement, which contains the same number.
TABLES_PER_STATEMENT_MAX = 16


class TableLookup(NamedTuple):
    """A table by name: name keys below a warehouse, ending with its own. `referenced_only`: only snapshots of a branch or tag."""

    warehouse_id: UUID
    keys: tuple[str, ...]
    referenced_only: bool = False


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table's metadata document as it is sent, and the location of its file."""

    table_id: UUID
    version: int
    event_id: UUID
    metadata_location: str
    metadata: Content


async def load_current(
    connection: Connection, lookups: Sequence[TableLookup], bytes_max: int = BYTES_UNBOUNDED
) -> list[LoadedTable | LargeDocument | None]:
    """The tables by these names, in order, as of one snapshot after the call; at most TABLES_PER_STATEMENT_MAX.

    bytes_max -- limit on one table; for a larger table, only its size is returned.
    """
    assert len(lookups) <= TABLES_PER_STATEMENT_MAX, "the statement reads no further"
    given = [{"warehouse_id": one.warehouse_id, "keys": one.keys, "referenced_only": one.referenced_only} for one in lookups]
    cursor = await connection.execute(_SQL["load_current"], {"lookups": orjson.dumps(given).decode(), "bytes_max": bytes_max}, binary=True)
    loaded: list[LoadedTable | LargeDocument | None] = [None] * len(lookups)
    for number, size, *row in await cursor.fetchall():
        loaded[number - 1] = LargeDocument(size) if size > bytes_max else _loaded(*row)
    return loaded


async def load_as_of(
    connection: Connection, table_id: UUID, as_of: int, *, referenced_only: bool, bytes_max: int = BYTES_UNBOUNDED
) -> LoadedTable | LargeDocument | None:
    """The table's document as of a position; LargeDocument if it has more than `bytes_max` bytes."""
    return await _load_as_of(connection, table_id, bytes_max, as_of=as_of, version=None, referenced_only=referenced_only)


async def load_version(connection: Connection, table_id: UUID, version: int) -> LoadedTable | None:
    """The table's document at a version of its stream."""
    loaded = await _load_as_of(connection, table_id, BYTES_UNBOUNDED, as_of=None, version=version, referenced_only=False)
    assert not isinstance(loaded, LargeDocument)
    return loaded


async def _load_as_of(
    connection: Connection, table_id: UUID, bytes_max: int, **parameters: int | None
) -> LoadedTable | LargeDocument | None:
    given = {"table_id": table_id, "bytes_max": bytes_max, **parameters}
    cursor = await connection.execute(_SQL["load_as_of"], given, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return None
    size, *columns = row
    return LargeDocument(size) if size > bytes_max else _loaded(*columns)


def _loaded(
    table_id: UUID,
    version: int,
    event_id: UUID,
    metadata_location: str,
    head: bytes,
    kinds: Sequence[int] | None,
    bodies: Sequence[bytes] | None,
) -> LoadedTable:
    bodies_by_kind = {TABLE_KINDS[kind - 1]: (body,) for kind, body in zip(kinds or (), bodies or (), strict=True)}
    return LoadedTable(table_id, version, event_id, metadata_location, content_of(document_pieces(head, bodies_by_kind, TABLE_KINDS)))


async def document_size(connection: Connection, table_ids: Sequence[UUID]) -> int:
    """Total size of the current documents of these tables."""
    row = await (await connection.execute(_SQL["document_size"], {"table_ids": list(table_ids)})).fetchone()
    assert row is not None
    size: int = row[0]
    return size


async def read_state_within(connection: Connection, table_id: UUID, bytes_max: int) -> tuple[TableState, int] | LargeDocument | None:
    """The newest state, and the generation it was read from; LargeDocument if the table has more than `bytes_max` bytes."""
    cursor = await connection.execute(_SQL["state"], {"table_id": table_id, "bytes_max": bytes_max}, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return None
    size = row[-1]
    if size > bytes_max:
        return LargeDocument(size)
    stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, keys = row[:10]
    next_ordinal, head, kinds, ordinals, bodies, expires_at_ms, purges, generation, protected = row[10:-1]
    given = (table_head_value(head), kinds or (), ordinals or (), bodies or (), next_ordinal)
    # Many parts are assembled in a thread, so that the event loop is not blocked.
    many = len(given[1]) > _PARTS_ASSEMBLED_INLINE_MAX
    document = await asyncio.to_thread(_assembled, *given) if many else _assembled(*given)
    named = (stream_id, version, event_id, warehouse_id, namespace_id, name, key)
    state = TableState(*named, status, location, tuple(keys), document, protected, expires_at_ms, purges)
    return state, generation


async def head_size(connection: Connection, table_ids: Sequence[UUID]) -> int:
    """Total size of the current heads of these tables."""
    row = await (await connection.execute(_SQL["head_size"], {"table_ids": list(table_ids)})).fetchone()
    assert row is not None
    size: int = row[0]
    return size


async def read_heads(connection: Connection, table_ids: Sequence[UUID]) -> list[tuple[TableState, int]]:
    """The newest states of these tables, and the generation they were read from. Their documents have no parts: they are for changes that
    leave the document as it is.
    """
    rows = await (await connection.execute(_SQL["heads"], {"table_ids": list(table_ids)}, binary=True)).fetchall()
    return await decoded(_heads, rows, sum([len(row[_HEAD_COLUMN]) for row in rows]))


def _heads(rows: Sequence[tuple[Any, ...]]) -> list[tuple[TableState, int]]:
    found: list[tuple[TableState, int]] = []
    for row in rows:
        stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, keys, *rest = row
        next_ordinal, head, expires_at_ms, purges, protected, generation = rest
        named = (stream_id, version, event_id, warehouse_id, namespace_id, name, key)
        document = head_alone(head, next_ordinal)
        found.append((TableState(*named, status, location, tuple(keys), document, protected, expires_at_ms, purges), generation))
    return found


async def read_head_within(connection: Connection, table_id: UUID, bytes_max: int) -> tuple[TableState, int] | LargeDocument | None:
    """As `read_heads` for one table; LargeDocument if its head has more than `bytes_max` bytes."""
    size = await head_size(connection, [table_id])
    if size > bytes_max:
        return LargeDocument(size)
    found = await read_heads(connection, [table_id])
    return found[0] if found else None


async def snapshots_size(connection: Connection, snapshots: Sequence[tuple[UUID, int]]) -> int:
    """Total size of what `read_snapshots` reads."""
    return sum([size for _, size, _ in await _snapshots(connection, snapshots, bodies=False)])


async def read_snapshots(connection: Connection, snapshots: Sequence[tuple[UUID, int]]) -> dict[UUID, Json]:
    """Current snapshots by table, of these ids of tables and of snapshots."""
    return {table_id: orjson.loads(body) for table_id, _, body in await _snapshots(connection, snapshots, bodies=True)}


async def _snapshots(connection: Connection, snapshots: Sequence[tuple[UUID, int]], *, bodies: bool) -> list[tuple[UUID, int, bytes]]:
    parameters = {
        "table_ids": [table_id for table_id, _ in snapshots],
        "snapshot_ids": [snapshot_id for _, snapshot_id in snapshots],
        "kind": KIND_NUMBERS["snapshots"],
        "bodies": bodies,
    }
    return await (await connection.execute(_SQL["snapshots"], parameters, binary=True)).fetchall()


def _assembled(head: Json, kinds: Sequence[int], ordinals: Sequence[int], bodies: Sequence[bytes], next_ordinal: int) -> Document:
    parts: dict[str, list[Part]] = {kind: [] for kind in TABLE_KINDS}
    for kind_number, ordinal, body in zip(kinds, ordinals, bodies, strict=True):
        kind = TABLE_KINDS[kind_number - 1]
        parts[kind].append(part_from_body(kind, ordinal, body))
    return assemble(head, {kind: tuple(members) for kind, members in parts.items()}, next_ordinal)


@dataclass(frozen=True, slots=True)
class NamedMetadataFiles:
    """The metadata files that a table refers to, beginning with the current one (for a dropped table, the last one).

    is_live -- also of a soft-deleted table, which may be undropped.
    """

    is_live: bool
    files: tuple[str, ...]


async def named_metadata_files(connection: Connection, table_id: UUID) -> NamedMetadataFiles | None:
    """The files of the table's newest version; None if it never existed."""
    parameters = {"table_id": table_id, "metadata_log": KIND_NUMBERS["metadata-log"]}
    row = await (await connection.execute(_SQL["named_metadata_files"], parameters, binary=True)).fetchone()
    if row is None:
        return None
    is_live, location, entries = row
    return NamedMetadataFiles(is_live, (location, *(orjson.loads(entry)["metadata-file"] for entry in entries)))


async def is_purging(connection: Connection, table_id: UUID) -> bool:
    """Whether the table is being purged; it keeps its location claims until the purge ends."""
    row = await (await connection.execute(_SQL["is_purging"], {"table_id": table_id})).fetchone()
    return row == (True,)
