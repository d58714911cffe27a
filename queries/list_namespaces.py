"""Lists the namespaces directly below a warehouse or namespace."""

from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..domain.identifiers import NamespaceIdentifier
from .executor import QueryExecutor
from .list_tabulars import list_below
from .results import Page, PageRequest


async def list_namespaces(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, parent: NamespaceIdentifier | None, page: PageRequest
) -> Page[str]:
    """Their names. Raises NoSuchNamespace if the parent does not exist."""
    return await list_below(queries, context, warehouse, parent, page, "namespace")
