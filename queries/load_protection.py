"""Loads whether a namespace, table or view is protected."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..domain.identifiers import ContentKind
from ..log.single_events import changed_at
from ..projections import protection
from .executor import QueryExecutor


class Protection(NamedTuple):
    """updated_at -- when the object was last changed."""

    protected: bool
    updated_at: datetime | None


async def load_protection(
    queries: QueryExecutor, context: RequestContext, warehouse: Warehouse, kind: ContentKind, object_id: UUID
) -> Protection:
    """Raises NoSuchNamespace, NoSuchTable or NoSuchView."""
    async with queries.backends.connection() as connection:
        protected = await protection.find(connection, warehouse.id, kind, object_id)
        updated_at = await changed_at(connection, object_id)
    await queries.authorize(context, Resource(kind, object_id))
    return Protection(protected, updated_at)


async def changed_up_to(queries: QueryExecutor, object_id: UUID, position: int) -> datetime | None:
    """When the object was last changed up to the position of a command on it, which was authorized."""
    async with queries.backends.connection() as connection:
        return await changed_at(connection, object_id, position)
