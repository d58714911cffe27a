"""The catalog and one of its warehouses, opened by a command at the command line."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .access.resolve_warehouse import find_warehouse
from .access.warehouse import Warehouse
from .compose import Application, open_catalog
from .domain.project import PROJECT_ID_DEFAULT
from .settings import Settings


@asynccontextmanager
async def open_warehouse(settings: Settings, reference: str) -> AsyncIterator[tuple[Application, Warehouse]]:
    """Raises NoSuchWarehouse. reference -- [PROJECT/]WAREHOUSE[@…] by name or id. Without a project, a name is that of the default project,
    and an id that of any.
    """
    async with open_catalog(settings) as catalog:
        async with catalog.backends.connection() as connection:
            warehouse = await find_warehouse(connection, PROJECT_ID_DEFAULT, reference, any_project=True)
        yield catalog, warehouse
