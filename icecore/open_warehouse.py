"""The warehouse of a command at the command line, and the catalog opened for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .access.resolve_warehouse import find_warehouse
from .access.warehouse import Warehouse
from .compose import Application, open_catalog
from .database.connections import Connection
from .domain.errors import NoSuchWarehouse
from .domain.identifiers import name_key
from .domain.project import PROJECT_ID_DEFAULT
from .projections import projects, warehouses
from .settings import Settings

_ELSEWHERE_NAMED_MAX = 3


@asynccontextmanager
async def open_warehouse(settings: Settings, reference: str) -> AsyncIterator[tuple[Application, Warehouse]]:
    """Raises as named_warehouse."""
    async with open_catalog(settings) as catalog:
        async with catalog.backends.connection() as connection:
            warehouse = await named_warehouse(connection, reference)
        yield catalog, warehouse


async def named_warehouse(connection: Connection, reference: str | None) -> Warehouse:
    """The warehouse [PROJECT/]WAREHOUSE[@…] by name or id. Without a project, a name is that of the default project, and an id that of any.

    Raises NoSuchWarehouse; the message says which projects have a warehouse of that name.
    """
    try:
        return await find_warehouse(connection, PROJECT_ID_DEFAULT, reference, any_project=True)
    except NoSuchWarehouse as refusal:
        name = (reference or "/").partition("@")[0]
        if "/" in name:
            raise
        key = name_key(name)
        elsewhere = [each for each in await warehouses.read_all_projects(connection) if each.name_key == key]
        # One of the default project did not exist at that point.
        if not elsewhere or any(each.project_id == PROJECT_ID_DEFAULT for each in elsewhere):
            raise
        named = [await projects.read_state(connection, each.project_id) for each in elsewhere[:_ELSEWHERE_NAMED_MAX]]
        listed = ", ".join(f"{project.name}/{name}" for project in named if project is not None)
        more = "" if len(elsewhere) <= len(named) else f" and {len(elsewhere) - len(named)} more"
        raise NoSuchWarehouse(f"Warehouse does not exist in the default project: {name}; other projects have {listed}{more}") from refusal
