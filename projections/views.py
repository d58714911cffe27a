"""Views: one row for each version with the whole document, and its queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.view import ViewState
from .bounded_reads import BYTES_UNBOUNDED, LargeDocument, decoded

_SQL = named_sql("icecore.projections", "views.sql")
# In the rows of `states`.
_DOCUMENT_COLUMN = 10


@dataclass(frozen=True, slots=True)
class LoadedView:
    """A view's metadata document as it is sent, and the location of its file."""

    view_id: UUID
    version: int
    metadata_location: str
    metadata: bytes


async def load(
    connection: Connection, view_id: UUID, as_of: int | None = None, *, bytes_max: int = BYTES_UNBOUNDED
) -> LoadedView | LargeDocument | None:
    """The view's document now, or as of a position; LargeDocument if it has more than `bytes_max` bytes."""
    block = "load_current" if as_of is None else "load_as_of"
    return await _loaded(connection, block, {"view_id": view_id, "as_of": as_of, "version": None, "bytes_max": bytes_max})


async def load_version(connection: Connection, view_id: UUID, version: int) -> LoadedView | None:
    """The view's document at a version of its stream."""
    parameters: dict[str, object] = {"view_id": view_id, "as_of": None, "version": version, "bytes_max": BYTES_UNBOUNDED}
    loaded = await _loaded(connection, "load_as_of", parameters)
    assert not isinstance(loaded, LargeDocument)
    return loaded


async def _loaded(connection: Connection, block: str, parameters: dict[str, object]) -> LoadedView | LargeDocument | None:
    cursor = await connection.execute(_SQL[block], parameters, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return None
    *columns, size = row
    return LoadedView(*columns) if columns[-1] is not None else LargeDocument(size)


async def document_size(connection: Connection, view_ids: Sequence[UUID]) -> int:
    """Total size of the current documents of these views."""
    row = await (await connection.execute(_SQL["document_size"], {"view_ids": list(view_ids)})).fetchone()
    assert row is not None
    size: int = row[0]
    return size


async def read_state_within(connection: Connection, view_id: UUID, bytes_max: int) -> tuple[ViewState, int] | LargeDocument | None:
    """The newest state, and the generation it was read from; LargeDocument if its document has more than `bytes_max` bytes."""
    cursor = await connection.execute(_SQL["state"], {"view_id": view_id, "bytes_max": bytes_max}, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return None
    stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, keys, document, *rest = row
    protected, expires_at_ms, generation, size = rest
    if size > bytes_max:
        return LargeDocument(size)
    metadata = orjson.loads(document)
    named = (stream_id, version, event_id, warehouse_id, namespace_id, name, key)
    state = ViewState(*named, status, location, tuple(keys), metadata, protected, expires_at_ms)
    return state, generation


async def read_states(connection: Connection, view_ids: Sequence[UUID]) -> list[tuple[ViewState, int]]:
    """The newest states of these views, and the generation they were read from."""
    rows = await (await connection.execute(_SQL["states"], {"view_ids": list(view_ids)}, binary=True)).fetchall()
    return await decoded(_states, rows, sum([len(row[_DOCUMENT_COLUMN]) for row in rows]))


def _states(rows: Sequence[tuple[Any, ...]]) -> list[tuple[ViewState, int]]:
    found: list[tuple[ViewState, int]] = []
    for row in rows:
        stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, keys, *rest = row
        document, protected, expires_at_ms, generation = rest
        named = (stream_id, version, event_id, warehouse_id, namespace_id, name, key)
        found.append((ViewState(*named, status, location, tuple(keys), orjson.loads(document), protected, expires_at_ms), generation))
    return found


async def soft_deleted_files(connection: Connection, view_ids: Sequence[UUID]) -> list[tuple[UUID, int, str]]:
    """The ids, versions and metadata files of those of these views that are soft-deleted."""
    return await (await connection.execute(_SQL["soft_deleted_files"], {"view_ids": list(view_ids)}, binary=True)).fetchall()
