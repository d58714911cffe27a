"""Lists the tables or views of a namespace."""

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..database.connections import Connection
from ..domain.identifiers import NamespaceIdentifier
from ..projections import names
from ..projections.names import ListedNames
from .answers import Page, PageRequest
from .executor import Fresh, QueryExecutor
from .freshness import content_tag, listing_tag


async def list_tables(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of tables. Raises NoSuchNamespace."""
    listed = await list_below(queries, context, warehouse, namespace, page, "table")
    return Page(listed.names, listed.next_key, listed.held_bytes)


async def list_views(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest
) -> Page[str]:
    """The names of views. Raises NoSuchNamespace."""
    listed = await list_below(queries, context, warehouse, namespace, page, "view")
    return Page(listed.names, listed.next_key, listed.held_bytes)


async def list_below(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, parent: NamespaceIdentifier | None, page: PageRequest, kind: str
) -> ListedNames:
    """One page of the names of a kind directly below a namespace, or below the warehouse."""

    def make_room(held_bytes: int) -> None:
        if context.make_room is not None:
            context.make_room(held_bytes)

    async def read(connection: Connection) -> Fresh[ListedNames]:
        parent_id = warehouse.id if parent is None else await names.find_namespace(connection, warehouse.scope, parent)
        listed = await names.list_page(connection, warehouse.scope, parent_id, kind, page.after, page.size, make_room)
        resource = Resource("warehouse" if parent is None else "namespace", parent_id)
        return Fresh(listed, resource, listed.held_bytes, (listing_tag(kind), content_tag(parent_id)))

    path = (warehouse.id,) if parent is None else warehouse.scope.namespace_path(parent)
    return await queries.answer(context, ("list", kind, *path, page.after, page.size), warehouse.as_of, read)
