"""Loads warehouses for the management API, and the configuration of their clients."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.backends import Backends
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.documents import Json
from ..domain.warehouse import WarehouseConfig, WarehouseState
from ..projections import warehouses
from ..projections.results import warehouse_result
from ..security.secrets import SecretUnreadable
from .executor import QueryExecutor, ReadResult
from .freshness import content_tag


async def load_warehouse(queries: QueryExecutor, context: RequestContext, warehouse_id: UUID) -> Json:
    """A GetWarehouseResponse. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        state = await warehouses.find(connection, context.project_id, warehouse_id)
    await queries.authorize(context, Resource("warehouse", warehouse_id))
    return await _response(queries.backends, state)


async def load_config(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse) -> WarehouseConfig:
    """What the operator adds to the configuration of clients now, also if the warehouse is read in the past. Raises NoSuchWarehouse."""

    async def read(connection: Connection) -> ReadResult[WarehouseConfig]:
        config = (await warehouses.find(connection, warehouse.project_id, warehouse.id, warehouse.name)).config
        size = sum(len(key) + len(value) for each in (config.defaults, config.overrides) for key, value in each.items())
        return ReadResult(config, Resource("warehouse", warehouse.id), size, (content_tag(warehouse.id),))

    return await queries.execute(context, ("warehouse-config", warehouse.id), None, read)


async def list_warehouses(queries: QueryExecutor, context: RequestContext) -> list[Json]:
    """All warehouses of the project, oldest first."""
    await queries.authorize(context, Resource("project", context.project_id))
    async with queries.backends.connection() as connection:
        states = await warehouses.read_all(connection, context.project_id)
    return [await _response(queries.backends, state) for state in states]


async def _response(backends: Backends, state: WarehouseState) -> Json:
    """The response; without the kind of the credential if that cannot be read."""
    if state.secret_ref is None:
        return warehouse_result(state, None)
    try:
        credential = await backends.credential(state.project_id, state.secret_ref)
    except SecretUnreadable:
        return warehouse_result(state, None)
    return warehouse_result(state, credential.kind)
