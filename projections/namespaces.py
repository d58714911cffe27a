"""Namespaces: one row per version; their rows, and what is asked of them."""

from typing import Any
from uuid import UUID

import orjson

from domain.events import Event, NamespaceCreated, NamespaceDropped
from domain.namespace import NamespaceState
from migrations.named_sql import named_sql
from projections.postgres import Connection
from projections.rows import Rows, close_name, open_name

_SQL = named_sql("projections", "namespaces.sql")


def project(rows: Rows, number: int, event: Event, after: NamespaceState) -> None:
    """The rows that event `number` adds."""
    rows.namespaces.append(
        (
            number,
            after.id,
            after.version,
            after.event_id,
            after.warehouse_id,
            after.parent_id,
            after.name,
            after.name_key,
            after.status,
            orjson.dumps(after.properties),
        )
    )
    match event:
        case NamespaceCreated():
            open_name(rows, number, after.id, after.parent_id, "namespace", after.name, after.name_key)
        case NamespaceDropped():
            close_name(rows, number, after.id)


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
