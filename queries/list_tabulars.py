"""The tables, and the views, directly in a namespace."""

from domain.identifiers import NamespaceIdentifier
from projections import names
from queries.answers import Page, PageRequest
from queries.read_side import ReadSide
from queries.warehouse import Warehouse


async def list_tables(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest) -> Page[str]:
    """Their names; NoSuchNamespace where there is no such namespace."""
    return await _list(reads, warehouse, namespace, page, "table")


async def list_views(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest) -> Page[str]:
    """Their names; NoSuchNamespace where there is no such namespace."""
    return await _list(reads, warehouse, namespace, page, "view")


async def _list(reads: ReadSide, warehouse: Warehouse, namespace: NamespaceIdentifier, page: PageRequest, kind: str) -> Page[str]:
    async with reads.connection() as connection:
        namespace_id = await names.find_namespace(connection, warehouse.scope, namespace)
        listed = await names.list_page(connection, warehouse.scope, namespace_id, kind, page.after, page.size)
    return Page(listed.names, listed.next_key)
