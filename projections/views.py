"""Views: one row per version with the whole document, and what is asked of them."""

from dataclasses import dataclass
from uuid import UUID

import orjson

from domain.view import ViewState
from migrations.named_sql import named_sql
from projections.postgres import Connection

_SQL = named_sql("projections", "views.sql")


@dataclass(frozen=True, slots=True)
class LoadedView:
    """A view's metadata document as it is sent, and where its file is."""

    view_id: UUID
    version: int
    metadata_location: str
    metadata: bytes


async def load(connection: Connection, view_id: UUID, as_of: int | None = None) -> LoadedView | None:
    """The view's document now, or as of a position."""
    block = "load_now" if as_of is None else "load_then"
    return await _loaded(connection, block, {"view_id": view_id, "as_of": as_of, "version": None})


async def load_version(connection: Connection, view_id: UUID, version: int) -> LoadedView | None:
    """The view's document at a version of its stream."""
    return await _loaded(connection, "load_then", {"view_id": view_id, "as_of": None, "version": version})


async def _loaded(connection: Connection, block: str, parameters: dict[str, object]) -> LoadedView | None:
    cursor = await connection.execute(_SQL[block], parameters, binary=True)
    row = await cursor.fetchone()
    return None if row is None else LoadedView(*row)


async def read_state(connection: Connection, view_id: UUID) -> tuple[ViewState, int] | None:
    """The newest state and the read models' generation it was read from."""
    cursor = await connection.execute(_SQL["state"], {"view_id": view_id}, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return None
    stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, keys, document, generation = row
    metadata = orjson.loads(document)
    state = ViewState(stream_id, version, event_id, warehouse_id, namespace_id, name, key, status, location, tuple(keys), metadata)
    return state, generation
