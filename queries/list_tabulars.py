"""Lists the tables or views of a namespace."""

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.identifiers import NamespaceIdentifier
from ..projections import names
from ..projections.names import ListedNames
from .executor import QueryExecutor, ReadResult
from .freshness import content_tag, listing_tag
from .results import Page, PageRequest


async def list_tables(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of tables. Raises NoSuchNamespace."""
    listed = await list_below(queries, context, warehouse, namespace, page, "table")
    return Page(listed.names, listed.next_key, listed.memory_bytes)


async def list_views(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of views. Raises NoSuchNamespace."""
    listed = await list_below(queries, context, warehouse, namespace, page, "view")
    return Page(listed.names, listed.next_key, listed.memory_bytes)


async def list_below(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, parent: NamespaceIdentifier | None, page: PageRequest, kind: str
) -> ListedNames:
    """One page of the names of a kind directly below a namespace, or below the warehouse."""

    def reserve_memory(memory_bytes: int) -> None:
        if context.reserve_memory is not None:
            context.reserve_memory(memory_bytes)

    async def read(connection: Connection) -> ReadResult[ListedNames]:
        parent_id = warehouse.id if parent is None else await names.find_namespace(connection, warehouse.scope, parent)
        listed = await names.list_page(connection, warehouse.scope, parent_id, kind, page.after, page.size, reserve_memory)
        resource = Resource("warehouse" if parent is None else "namespace", parent_id)
        return ReadResult(listed, resource, listed.memory_bytes, (listing_tag(kind), content_tag(parent_id)))

    path = (warehouse.id,) if parent is None else warehouse.scope.namespace_path(parent)
    return await queries.execute(context, ("list", kind, *path, page.after, page.size), warehouse.as_of, read)
