"""Lists the tables or views of a namespace."""

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.identifiers import NamespaceIdentifier
from ..projections import names
from ..projections.names import ListedNames
from .cache_invalidator import listing_tag, paths_tag, protection_tag, stream_tag
from .executor import QueryExecutor, ReadResult
from .results import Page, PageRequest


async def list_tables(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of tables. Raises NoSuchNamespace."""
    return await list_below(queries, context, warehouse, namespace, page, "table")


async def list_views(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of views. Raises NoSuchNamespace."""
    return await list_below(queries, context, warehouse, namespace, page, "view")


async def list_below(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, parent: NamespaceIdentifier | None, page: PageRequest, kind: str
) -> Page[str]:
    """One page of the names of a kind directly below a namespace, or below the warehouse."""

    def reserve_memory(memory_bytes: int) -> None:
        if context.reserve_memory is not None:
            context.reserve_memory(memory_bytes)

    async def read(connection: Connection) -> ReadResult[ListedNames]:
        parent_id = warehouse.id if parent is None else await names.find_namespace(connection, warehouse.name_lookup, parent)
        listed = await names.list_page(
            connection, warehouse.name_lookup, parent_id, kind, page.after, page.size, reserve_memory, with_objects=page.with_objects
        )
        resource = Resource("warehouse" if parent is None else "namespace", parent_id)
        tags = [listing_tag(kind), stream_tag(parent_id), paths_tag(warehouse.id), *([protection_tag(kind)] if page.with_objects else [])]
        return ReadResult(listed, resource, listed.memory_bytes, tags)

    path = (warehouse.id,) if parent is None else warehouse.name_lookup.namespace_path(parent)
    key = ("list", kind, *path, page.after, page.size, page.with_objects)
    listed = await queries.execute(context, key, warehouse.as_of, read)
    return Page(listed.names, listed.next_key, listed.memory_bytes, listed.ids, listed.protected)
