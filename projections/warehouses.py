"""Warehouses: one row for each version, and its queries."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.errors import NoSuchWarehouse
from ..domain.identifiers import name_key
from ..domain.warehouse import (
    DeleteProfile,
    FormatVersionPolicy,
    WarehouseState,
)
from ..domain.warehouse_config import WarehouseConfig

_SQL = named_sql("icecore.projections", "warehouses.sql")


async def read_by_id(connection: Connection, project_id: UUID | None, warehouse_id: UUID) -> WarehouseState | None:
    """None if it does not exist in the project (None: in any), or is deleted."""
    cursor = await connection.execute(_SQL["by_id"], {"project_id": project_id, "warehouse_id": warehouse_id}, binary=True)
    row = await cursor.fetchone()
    state = None if row is None else _state(row)
    return None if state is None or state.status == "deleted" else state


async def find(connection: Connection, project_id: UUID, warehouse_id: UUID, named: str | None = None) -> WarehouseState:
    """As `read_by_id`. Raises NoSuchWarehouse, whose message has the client's name for it, `named`, or else the id."""
    state = await read_by_id(connection, project_id, warehouse_id)
    if state is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {named or warehouse_id}")
    return state


async def read_of_any_project(connection: Connection, warehouse_id: UUID) -> WarehouseState | None:
    """Of any project, also deleted: the caller checks both."""
    cursor = await connection.execute(_SQL["of_any_project"], {"warehouse_id": warehouse_id}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else _state(row)


async def read_by_name(connection: Connection, project_id: UUID, name: str) -> WarehouseState | None:
    cursor = await connection.execute(_SQL["by_name"], {"project_id": project_id, "name_key": name_key(name)}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else _state(row)


async def read_state_within(connection: Connection, warehouse_id: UUID, _bytes_max: int) -> tuple[WarehouseState, int] | None:
    """The newest state, and the generation it was read from. It is small: its profile and its configuration have limits."""
    cursor = await connection.execute(_SQL["of_any_project"], {"warehouse_id": warehouse_id}, binary=True)
    row = await cursor.fetchone()
    return None if row is None else (_state(row), row[-1])


async def document_size(_connection: Connection, _warehouse_ids: Sequence[UUID]) -> int:
    """No memory is reserved for the states of warehouses."""
    return 0


async def read_all(
    connection: Connection, project_id: UUID, *, limit: int | None = None, status: str | None = None
) -> list[WarehouseState]:
    """At most `limit` warehouses, those with a status or all, oldest first."""
    cursor = await connection.execute(_SQL["all"], {"project_id": project_id, "limit": limit, "status": status}, binary=True)
    return [_state(row) for row in await cursor.fetchall()]


async def read_all_projects(connection: Connection) -> list[WarehouseState]:
    """The warehouses of the whole server, active or not, oldest first."""
    cursor = await connection.execute(_SQL["of_all_projects"], binary=True)
    return [_state(row) for row in await cursor.fetchall()]


async def read_sharing_storage(
    connection: Connection, kind: str, names: Sequence[str] | None, endpoint: str | None
) -> list[WarehouseState]:
    """The warehouses of the whole server, oldest first, that may share storage with a profile; others cannot.

    kind -- its type. names -- of its buckets; None: it has none. endpoint -- another endpoint may reach the same store.
    """
    row = {"type": kind, "names": None if names is None else list(names), "endpoint": endpoint}
    cursor = await connection.execute(_SQL["sharing_storage"], row, binary=True)
    return [_state(each) for each in await cursor.fetchall()]


async def read_secret_refs(connection: Connection, project_id: UUID) -> list[UUID]:
    """The credentials of the project's warehouses."""
    cursor = await connection.execute(_SQL["secret_refs"], {"project_id": project_id}, binary=True)
    return [secret_ref for (secret_ref,) in await cursor.fetchall()]


async def read_only_ids(connection: Connection) -> list[UUID]:
    """The read-only warehouses of the server: jobs delete none of their files."""
    cursor = await connection.execute(_SQL["read_only"], binary=True)
    return [warehouse_id for (warehouse_id,) in await cursor.fetchall()]


async def is_read_only(connection: Connection, warehouse_id: UUID) -> bool:
    row = await (await connection.execute(_SQL["is_read_only"], {"warehouse_id": warehouse_id}, binary=True)).fetchone()
    return row is not None and row[0]


async def existed(connection: Connection, warehouse_id: UUID, as_of: int) -> bool:
    """Whether the warehouse existed as of a position."""
    cursor = await connection.execute(_SQL["existed"], {"warehouse_id": warehouse_id, "as_of": as_of})
    row = await cursor.fetchone()
    return row is not None and row[0]


def _state(row: tuple[Any, ...]) -> WarehouseState:
    warehouse_id, version, event_id, project_id, name, key, storage_profile, secret_ref, exact_names, config, *policies, _ = row
    status, protected, format_versions, read_only, expiration_seconds, purge_default, heartbeat_seconds_max = policies
    return WarehouseState(
        warehouse_id,
        version,
        event_id,
        project_id,
        name,
        key,
        orjson.loads(storage_profile),
        secret_ref,
        exact_names,
        WarehouseConfig() if config is None else WarehouseConfig(**orjson.loads(config)),
        status,
        protected,
        _format_versions(format_versions),
        read_only,
        DeleteProfile(expiration_seconds),
        purge_default,
        heartbeat_seconds_max,
    )


def _format_versions(policy: bytes | None) -> FormatVersionPolicy:
    if policy is None:
        return FormatVersionPolicy()
    members = orjson.loads(policy)
    return FormatVersionPolicy(tuple(members["allowed"]), members["default"])
