"""A view as engines load it."""

from uuid import UUID

from database.connections import Connection
from domain.errors import NoSuchView
from domain.identifiers import TabularIdentifier
from projections import names, results, views
from projections.bounded_reads import LargeDocument
from queries.freshness import content_tag, name_tag
from queries.read_side import Fresh, ReadSide
from queries.warehouse import Warehouse


async def load_view(reads: ReadSide, warehouse: Warehouse, view: TabularIdentifier) -> bytes:
    """A LoadViewResult; NoSuchView."""

    async def read(connection: Connection, bytes_max: int) -> Fresh[bytes] | LargeDocument:
        view_id = await names.find_view(connection, warehouse.scope, view)
        loaded = await views.load(connection, view_id, warehouse.as_of, bytes_max=bytes_max)
        if isinstance(loaded, LargeDocument):
            return loaded
        if loaded is None:
            raise NoSuchView(f"View does not exist: {view}")
        body = results.load_view_result(loaded, warehouse.profile.client_config())
        return Fresh(body, len(body), (content_tag(view_id),))

    return await reads.answer_found(("view", *warehouse.scope.path(view)), warehouse.as_of, lambda: reads.read_within(read))


async def view_exists(reads: ReadSide, warehouse: Warehouse, view: TabularIdentifier) -> None:
    """NoSuchView where it does not."""

    async def read(connection: Connection) -> Fresh[UUID]:
        view_id = await names.find_view(connection, warehouse.scope, view)
        return Fresh(view_id, 0, (name_tag(view_id),))

    await reads.answer(("view name", *warehouse.scope.path(view)), warehouse.as_of, read)
