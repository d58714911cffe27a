"""Namespaces: one row per version, and what is asked of them."""

from typing import Any
from uuid import UUID

import orjson

from domain.namespace import NamespaceState
from migrations.named_sql import named_sql
from projections.postgres import Connection

_SQL = named_sql("projections", "namespaces.sql")


async def read_properties(connection: Connection, namespace_id: UUID, as_of: int | None) -> dict[str, str]:
    cursor = await connection.execute(
        _SQL["properties_now" if as_of is None else "properties_then"], {"namespace_id": namespace_id, "as_of": as_of}, binary=True
    )
    row = await cursor.fetchone()
    properties: dict[str, str] = orjson.loads(row[0]) if row is not None else {}
    return properties


async def read_state(connection: Connection, namespace_id: UUID) -> tuple[NamespaceState, int] | None:
    """The newest state and the read models' generation it was read from."""
    cursor = await connection.execute(_SQL["state"], {"namespace_id": namespace_id}, binary=True)
    row: tuple[Any, ...] | None = await cursor.fetchone()
    if row is None:
        return None
    stream_id, version, event_id, warehouse_id, parent_id, name, key, status, properties, generation = row
    state = NamespaceState(stream_id, version, event_id, warehouse_id, parent_id, name, key, status, orjson.loads(properties))
    return state, generation
