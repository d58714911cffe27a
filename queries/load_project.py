"""Loads projects for the management API, and checks that the project of a request exists."""

from ..access.authorization import SERVER, Resource
from ..access.request_context import RequestContext
from ..domain.documents import Json
from ..domain.project import ProjectState
from ..projections import projects
from .executor import QueryExecutor


async def check_project(queries: QueryExecutor, context: RequestContext) -> None:
    """Raises NoSuchProject unless the project of the context exists. Not authorized, because nothing of it is returned."""
    async with queries.backends.connection() as connection:
        await projects.find(connection, context.project_id)


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
