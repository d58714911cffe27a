"""A view as engines load it."""

from domain.errors import NoSuchView
from domain.identifiers import TabularIdentifier
from projections import names, results, views
from queries.read_side import ReadSide
from queries.warehouse import Warehouse


async def load_view(reads: ReadSide, warehouse: Warehouse, view: TabularIdentifier) -> bytes:
    """A LoadViewResult; NoSuchView."""
    async with reads.connection() as connection:
        view_id = await names.find_view(connection, warehouse.scope, view)
        loaded = await views.load(connection, view_id, warehouse.as_of)
    if loaded is None:
        raise NoSuchView(f"View does not exist: {view}")
    return results.load_view_result(loaded, warehouse.profile.client_config())


async def view_exists(reads: ReadSide, warehouse: Warehouse, view: TabularIdentifier) -> None:
    """NoSuchView where it does not."""
    async with reads.connection() as connection:
        await names.find_view(connection, warehouse.scope, view)
