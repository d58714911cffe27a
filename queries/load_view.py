"""Loads a view."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.errors import NoSuchView
from ..domain.identifiers import TabularIdentifier
from ..projections import names, response_bodies, views
from ..projections.bounded_reads import LargeDocument
from .cache_invalidator import name_tag, paths_tag, stream_tag
from .executor import QueryExecutor, ReadResult


async def load_view(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, view: TabularIdentifier) -> bytes:
    """A LoadViewResult. Raises NoSuchView."""

    async def read(connection: Connection, bytes_max: int) -> ReadResult[bytes] | LargeDocument:
        view_id = await names.find_view(connection, warehouse.name_lookup, view)
        loaded = await views.load(connection, view_id, warehouse.as_of, bytes_max=bytes_max)
        if isinstance(loaded, LargeDocument):
            return loaded
        if loaded is None:
            raise NoSuchView(f"View does not exist: {view}")
        body = response_bodies.load_view_result(loaded)
        return ReadResult(body, Resource("view", view_id), len(body), (stream_tag(view_id), paths_tag(warehouse.id)))

    key = ("view", *warehouse.name_lookup.path(view))
    return await queries.execute_with_own_connections(context, key, warehouse.as_of, lambda: queries.backends.read_with_reservation(read))


async def view_exists(queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, view: TabularIdentifier) -> None:
    """Raises NoSuchView if the view does not exist."""

    async def read(connection: Connection) -> ReadResult[UUID]:
        view_id = await names.find_view(connection, warehouse.name_lookup, view)
        return ReadResult(view_id, Resource("view", view_id), 0, (name_tag(view_id), paths_tag(warehouse.id)))

    await queries.execute(context, ("view name", *warehouse.name_lookup.path(view)), warehouse.as_of, read)
