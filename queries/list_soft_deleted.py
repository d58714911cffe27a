"""Lists the tables and views of a warehouse that are soft-deleted now."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..domain.errors import NoSuchNamespace
from ..projections import namespaces, soft_deleted, warehouses
from ..projections.soft_deleted import SoftDeleted
from .executor import QueryExecutor
from .results import Page

__all__ = ["SoftDeleted", "list_soft_deleted"]


async def list_soft_deleted(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, namespace_id: UUID | None, after: UUID | None, size: int
) -> Page[SoftDeleted]:
    """At most `size` of a warehouse, active or not, or of one of its namespaces, in the order of their ids.

    Raises NoSuchWarehouse and NoSuchNamespace.
    """
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
        if namespace_id is not None and not await namespaces.is_live(connection, warehouse_id, namespace_id):
            raise NoSuchNamespace(f"Namespace does not exist: {namespace_id}")
        await queries.authorize(context, Resource("warehouse", warehouse_id))
        found = await soft_deleted.list_soft_deleted(connection, warehouse_id, namespace_id, after, size + 1)
    page = found[:size]
    return Page(page, str(page[-1].object_id) if len(page) < len(found) else None, 0)
