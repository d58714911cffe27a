"""Loads warehouses for the management API, and the configuration of their clients."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..access.warehouse_result import load_result
from ..database.connections import Connection
from ..domain.documents import Json
from ..domain.task import PURGE
from ..domain.warehouse_config import WarehouseConfig
from ..log.single_events import updated_at
from ..projections import warehouses
from .cache_invalidator import stream_tag
from .executor import QueryExecutor, ReadResult


async def load_warehouse(queries: QueryExecutor, context: RequestContext, warehouse_id: UUID) -> Json:
    """A GetWarehouseResponse. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        state = await warehouses.find(connection, context.project_id, warehouse_id)
        updated = await updated_at(connection, [warehouse_id])
    await queries.authorize(context, Resource("warehouse", warehouse_id))
    return {**await load_result(queries.backends, state), "updated-at": updated.get(warehouse_id)}


async def updated_up_to(queries: QueryExecutor, warehouse_id: UUID, position: int) -> datetime | None:
    """When a warehouse was last changed up to the position of a command on it, which was authorized. None: not since its creation."""
    async with queries.backends.connection() as connection:
        return (await updated_at(connection, [warehouse_id], position)).get(warehouse_id)


async def load_task_queue_config(queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, queue: str) -> int | None:
    """The heartbeat_seconds_max of a queue; None: its default. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        state = await warehouses.find(connection, context.project_id, warehouse_id)
    await queries.authorize(context, Resource("warehouse", warehouse_id))
    return state.purge_heartbeat_seconds_max if queue == PURGE else None


async def load_config(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse) -> WarehouseConfig:
    """What the operator adds to the configuration of clients now, also if the warehouse is read in the past. Raises NoSuchWarehouse."""

    async def read(connection: Connection) -> ReadResult[WarehouseConfig]:
        config = (await warehouses.find(connection, warehouse.project_id, warehouse.id, warehouse.name)).config
        size = sum(len(key) + len(value) for each in (config.defaults, config.overrides) for key, value in each.items())
        return ReadResult(config, Resource("warehouse", warehouse.id), size, (stream_tag(warehouse.id),))

    return await queries.execute(context, ("warehouse-config", warehouse.id), None, read)


async def list_warehouses(queries: QueryExecutor, context: RequestContext, statuses: Collection[str]) -> list[Json]:
    """The warehouses of the project with one of the statuses, oldest first."""
    await queries.authorize(context, Resource("project", context.project_id))
    async with queries.backends.connection() as connection:
        states = [state for state in await warehouses.read_all(connection, context.project_id) if state.status in statuses]
        updated = await updated_at(connection, [state.id for state in states])
    return [{**await load_result(queries.backends, state), "updated-at": updated.get(state.id)} for state in states]
