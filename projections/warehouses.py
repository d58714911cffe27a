"""Warehouses: one row per version, what is asked of them, and the log's head."""

from typing import Any
from uuid import UUID

import orjson

from domain.identifiers import name_key
from domain.warehouse import WarehouseState
from migrations.named_sql import named_sql
from projections.postgres import Connection

_SQL = named_sql("projections", "warehouses.sql")


async def read_by_id(connection: Connection, project_id: UUID, warehouse_id: UUID) -> WarehouseState | None:
    cursor = await connection.execute(_SQL["by_id"], {"project_id": project_id, "warehouse_id": warehouse_id}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else _state(row)


async def read_of_any_project(connection: Connection, warehouse_id: UUID) -> WarehouseState | None:
    """For jobs, which serve every project; a request has one."""
    cursor = await connection.execute(_SQL["of_any_project"], {"warehouse_id": warehouse_id}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else _state(row)


async def read_by_name(connection: Connection, project_id: UUID, name: str) -> WarehouseState | None:
    cursor = await connection.execute(_SQL["by_name"], {"project_id": project_id, "name_key": name_key(name)}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else _state(row)


async def read_all(connection: Connection, project_id: UUID) -> list[WarehouseState]:
    cursor = await connection.execute(_SQL["all"], {"project_id": project_id}, binary=True)
    return [_state(row) for row in await cursor.fetchall()]


async def existed(connection: Connection, warehouse_id: UUID, as_of: int) -> bool:
    """Whether the warehouse had been created as of a position."""
    cursor = await connection.execute(_SQL["existed"], {"warehouse_id": warehouse_id, "as_of": as_of})
    return await cursor.fetchone() is not None


def _state(row: tuple[Any, ...]) -> WarehouseState:
    warehouse_id, version, event_id, project_id, name, key, storage_profile, secret_ref, exact_names, _ = row
    return WarehouseState(warehouse_id, version, event_id, project_id, name, key, orjson.loads(storage_profile), secret_ref, exact_names)


async def is_read_only(connection: Connection) -> bool:
    """Whether Postgres takes no writes from us: a standby, or told to be read-only."""
    return await (await connection.execute(_SQL["is_read_only"])).fetchone() == (True,)


async def log_head(connection: Connection) -> int:
    """The position of the last event, 0 in an empty log."""
    row = await (await connection.execute(_SQL["log_head"])).fetchone()
    assert row is not None
    return int(row[0])
