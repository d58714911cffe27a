"""Loads the actions that the principal may do to an object (Lakekeeper's `…/actions`)."""

from uuid import UUID

from ..access.actions import ACTIONS
from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.resolve_warehouse import warehouse_by_id
from ..domain.documents import Json
from ..domain.errors import NoSuchNamespace, NoSuchTable, NoSuchView
from ..domain.identifiers import ContentKind
from ..projections import names
from .executor import QueryExecutor

_NO_SUCH = {"namespace": NoSuchNamespace, "table": NoSuchTable, "view": NoSuchView}


async def load_actions(queries: QueryExecutor, context: RequestContext, resource: Resource) -> list[Json]:
    """The actions on the server or the context's project, each as an object with its name."""
    await queries.authorize(context, resource)
    return [{"action": action} for action in ACTIONS[resource.kind]]


async def load_warehouse_actions(queries: QueryExecutor, context: RequestContext, warehouse_id: UUID) -> list[Json]:
    """The same for a warehouse, active or not. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        await warehouse_by_id(connection, context.project_id, warehouse_id)
    return await load_actions(queries, context, Resource("warehouse", warehouse_id))


async def load_object_actions(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, kind: ContentKind, object_id: UUID
) -> list[Json]:
    """The same for an object in a warehouse. Raises NoSuchWarehouse, NoSuchNamespace, NoSuchTable and NoSuchView."""
    async with queries.backends.connection() as connection:
        await warehouse_by_id(connection, context.project_id, warehouse_id)
        found = await names.kind_in_warehouse(connection, warehouse_id, object_id)
    if found != kind:
        raise _NO_SUCH[kind](f"{kind.capitalize()} does not exist: {object_id}")
    return await load_actions(queries, context, Resource(kind, object_id))
