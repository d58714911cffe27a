"""Loads projects for the management API, and checks that the project of a request exists."""

from uuid import UUID

from ..access.authorization import SERVER, Resource
from ..access.request_context import RequestContext
from ..domain.documents import Json
from ..domain.project import ProjectState
from ..projections import projects, warehouses
from .executor import QueryExecutor


async def check_project(queries: QueryExecutor, context: RequestContext) -> None:
    """Raises NoSuchProject unless the project of the context exists. Not authorized, because nothing of it is returned."""
    async with queries.backends.connection() as connection:
        await projects.find(connection, context.project_id)


async def project_of_warehouse(queries: QueryExecutor, warehouse_id: UUID) -> UUID | None:
    """The project of a warehouse, also of a deleted one; None if there is no such warehouse. Not authorized, as check_project."""
    async with queries.backends.connection() as connection:
        state = await warehouses.read_of_any_project(connection, warehouse_id)
    return None if state is None else state.project_id


async def load_project(queries: QueryExecutor, context: RequestContext) -> Json:
    """A GetProjectResponse of the context's project. Raises NoSuchProject."""
    await queries.authorize(context, Resource("project", context.project_id))
    async with queries.backends.connection() as connection:
        return _result(await projects.find(connection, context.project_id))


async def list_projects(queries: QueryExecutor, context: RequestContext) -> list[Json]:
    """All projects: the default one first, then oldest first."""
    await queries.authorize(context, SERVER)
    async with queries.backends.connection() as connection:
        return [_result(each) for each in await projects.read_all(connection)]


def _result(state: ProjectState) -> Json:
    return {"project-id": str(state.id), "project-name": state.name}
