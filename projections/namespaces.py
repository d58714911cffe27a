"""Namespaces: one row for each version, and its queries."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.namespace import NamespaceState
from .bounded_reads import LargeDocument, decoded

_SQL = named_sql("icecore.projections", "namespaces.sql")
# In the rows of `states`.
_PROPERTIES_COLUMN = 9


async def read_properties(connection: Connection, namespace_id: UUID, as_of: int | None, bytes_max: int) -> dict[str, str] | LargeDocument:
    """The properties now, or as of a position; LargeDocument if they have more than `bytes_max` bytes."""
    parameters = {"namespace_id": namespace_id, "as_of": as_of, "bytes_max": bytes_max}
    cursor = await connection.execute(_SQL["properties_current" if as_of is None else "properties_as_of"], parameters, binary=True)
    row = await cursor.fetchone()
    if row is None:
        return {}
    text, size = row
    if text is None:
        return LargeDocument(size)
    properties: dict[str, str] = orjson.loads(text)
    return properties


async def document_size(connection: Connection, namespace_ids: Sequence[UUID]) -> int:
    """Total size of the current properties of these namespaces."""
    row = await (await connection.execute(_SQL["document_size"], {"namespace_ids": list(namespace_ids)})).fetchone()
    assert row is not None
    size: int = row[0]
    return size


async def read_state_within(
    connection: Connection, namespace_id: UUID, bytes_max: int
) -> tuple[NamespaceState, int] | LargeDocument | None:
    """The newest state, and the generation it was read from; LargeDocument if its properties have more than `bytes_max` bytes."""
    cursor = await connection.execute(_SQL["state"], {"namespace_id": namespace_id, "bytes_max": bytes_max}, binary=True)
    row: tuple[Any, ...] | None = await cursor.fetchone()
    if row is None:
        return None
    *state, generation, size = row
    if size > bytes_max:
        return LargeDocument(size)
    return _state(*state), generation


async def read_states(connection: Connection, namespace_ids: Sequence[UUID]) -> list[tuple[NamespaceState, int]]:
    """The newest states of these namespaces, and the generation they were read from."""
    rows = await (await connection.execute(_SQL["states"], {"namespace_ids": list(namespace_ids)}, binary=True)).fetchall()
    return await decoded(_states, rows, sum([len(row[_PROPERTIES_COLUMN]) for row in rows]))


def _states(rows: Sequence[tuple[Any, ...]]) -> list[tuple[NamespaceState, int]]:
    return [(_state(*state), generation) for *state, generation in rows]


def _state(
    namespace_id: UUID,
    version: int,
    event_id: UUID,
    warehouse_id: UUID,
    parent_id: UUID,
    name: str,
    name_key: str,
    status: Literal["live", "soft-deleted", "dropped"],
    location_key: str,
    properties: bytes,
    protected: bool,
    expires_at_ms: int | None,
    root_id: UUID | None,
) -> NamespaceState:
    named = (namespace_id, version, event_id, warehouse_id, parent_id, name, name_key)
    return NamespaceState(*named, status, location_key, orjson.loads(properties), protected, expires_at_ms, root_id)


async def roots_of_deleted(connection: Connection, namespace_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Those of these namespaces that are soft-deleted, each with the namespace whose drop that was."""
    cursor = await connection.execute(_SQL["roots_of_deleted"], {"namespace_ids": list(namespace_ids)}, binary=True)
    return dict(await cursor.fetchall())


class DeclaredProperties(NamedTuple):
    """A namespace's properties as JSON, and the event as of which they were read."""

    namespace_id: UUID
    event_id: UUID
    properties: bytes


async def read_declared(connection: Connection, warehouse_id: UUID, keys: Sequence[str]) -> list[DeclaredProperties]:
    """The existing namespaces on a path of name keys below a warehouse, outermost first."""
    cursor = await connection.execute(_SQL["declared"], {"warehouse_id": warehouse_id, "keys": keys}, binary=True)
    return [DeclaredProperties(*row) for row in await cursor.fetchall()]


async def is_there(connection: Connection, warehouse_id: UUID, namespace_id: UUID) -> bool:
    """Whether the warehouse contains the namespace now, live or soft-deleted."""
    parameters = {"warehouse_id": warehouse_id, "namespace_id": namespace_id}
    row = await (await connection.execute(_SQL["is_there"], parameters)).fetchone()
    return row == (True,)
