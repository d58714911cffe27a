"""Lists the tables, views and namespaces of a warehouse that are soft-deleted now."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..domain.errors import NoSuchNamespace
from ..projections import namespace_trees, namespaces, soft_deleted, warehouses
from ..projections.soft_deleted import SoftDeleted
from .executor import QueryExecutor
from .results import Page

__all__ = ["SoftDeleted", "list_soft_deleted", "list_soft_deleted_namespaces"]


async def list_soft_deleted(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, namespace_id: UUID | None, after: UUID | None, size: int
) -> Page[SoftDeleted]:
    """At most `size` of a warehouse, active or not, or of one of its namespaces, in the order of their ids.

    Raises NoSuchWarehouse and NoSuchNamespace.
    """
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
        if namespace_id is not None and not await namespaces.is_there(connection, warehouse_id, namespace_id):
            raise NoSuchNamespace(f"Namespace does not exist: {namespace_id}")
        await queries.authorize(context, Resource("warehouse", warehouse_id))
        found = await soft_deleted.list_soft_deleted(connection, warehouse_id, namespace_id, after, size + 1)
    page = found[:size]
    return Page(page, str(page[-1].object_id) if len(page) < len(found) else None, 0)


async def list_soft_deleted_namespaces(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, after: UUID | None, size: int
) -> Page[SoftDeleted]:
    """At most `size` namespaces of a warehouse, active or not, that can be undropped, in the order of their ids. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
        await queries.authorize(context, Resource("warehouse", warehouse_id))
        found = await namespace_trees.list_roots(connection, warehouse_id, after, size + 1)
    page = found[:size]
    return Page(page, str(page[-1].object_id) if len(page) < len(found) else None, 0)
