"""The namespaces directly below a warehouse or a namespace."""

from access.request_context import RequestContext
from access.warehouse import Warehouse
from domain.identifiers import NamespaceIdentifier
from projections import names
from queries.answers import Page, PageRequest
from queries.executor import QueryExecutor
from queries.list_tabulars import list_below


async def list_namespaces(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, parent: NamespaceIdentifier | None, page: PageRequest
) -> Page[tuple[str, ...]]:
    """Each with all its levels, those of `parent` spelled as the client did; NoSuchNamespace where there is no parent."""
    above = parent.levels if parent is not None else ()
    listed: names.ListedNames = await list_below(queries, context, warehouse, parent, page, "namespace")
    return Page([(*above, name) for name in listed.names], listed.next_key)
