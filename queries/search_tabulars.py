"""Searches the tables and views of a warehouse by name or id."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..domain.identifiers import uuid_or_none
from ..projections import search, warehouses
from ..projections.search import FoundTabular
from .executor import QueryExecutor

__all__ = ["FoundTabular", "search_tabulars"]


async def search_tabulars(queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, text: str) -> list[FoundTabular]:
    """At most ten of a warehouse, active or not, the nearest first; new names can be found about a second after their commit.

    text -- part of a name or path, also misspelt; or the id of a table, a view, or a namespace with some. Raises NoSuchWarehouse.
    """
    async with queries.backends.connection() as connection:
        warehouse = await warehouses.find(connection, context.project_id, warehouse_id)
        await queries.authorize(context, Resource("warehouse", warehouse_id))
        object_id = uuid_or_none(text)
        if object_id is not None:
            return await search.find_by_id(connection, warehouse_id, object_id)
        return await search.find_by_name(connection, warehouse_id, warehouse.exact_names, text)
