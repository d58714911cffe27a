"""Loads what identifies the server."""

from uuid import UUID

from ..access.authorization import SERVER
from ..access.request_context import RequestContext
from ..projections.server import read_server_id
from .executor import QueryExecutor


async def load_server_id(queries: QueryExecutor, context: RequestContext) -> UUID:
    """The id that the database got with its schema; all servers on it share it."""
    await queries.authorize(context, SERVER)
    async with queries.backends.connection() as connection:
        return await read_server_id(connection)
