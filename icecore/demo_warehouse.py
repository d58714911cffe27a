"""The warehouse `demo` of the embedded Postgres: local files in the data folder."""

from uuid import UUID

import uuid_utils

from .access.request_context import ANONYMOUS, RequestContext
from .commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from .compose import open_catalog
from .domain.project import PROJECT_ID_DEFAULT
from .log.head import log_head
from .owned_files import refuse_foreign
from .settings import Settings

DEMO_WAREHOUSE = "demo"


async def ensure_demo_warehouse(settings: Settings) -> None:
    """Creates the warehouse `demo` in a new catalog. A warehouse that was deleted is not created again."""
    async with open_catalog(settings) as catalog:
        async with catalog.backends.connection() as connection:
            if await log_head(connection) > 0:
                return
        directory = settings.data_dir / "warehouse"
        directory.mkdir(exist_ok=True)
        refuse_foreign(directory)
        profile = {"type": "local", "directory": str(directory)}
        command = CreateWarehouse(name=DEMO_WAREHOUSE, storage_profile=profile, storage_credential=None, exact_names=False)
        # Created by the program before there are clients.
        await create_warehouse(catalog.commands, operator_context("createWarehouse"), command, needs_review=False)


def operator_context(operation: str, project_id: UUID = PROJECT_ID_DEFAULT) -> RequestContext:
    """The request context of an operator at the command line."""
    return RequestContext(request_id=str(uuid_utils.uuid7()), project_id=project_id, principal=ANONYMOUS, operation=operation)
