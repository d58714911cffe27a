"""Loads the calls of each operation of a project by the hour."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..domain.errors import BadRequest
from ..projections import endpoint_statistics, warehouses
from ..projections.endpoint_statistics import NO_WAREHOUSE, EndpointCalls
from .executor import QueryExecutor

__all__ = ["NO_WAREHOUSE", "EndpointCalls", "load_endpoint_statistics"]

_ROWS_MAX = 10_000


async def load_endpoint_statistics(
    queries: QueryExecutor,
    context: RequestContext,
    *,
    after: datetime,
    upto: datetime,
    warehouse_id: UUID | None,
    status_codes: Sequence[int] | None,
) -> list[EndpointCalls]:
    """The calls in hours that begin after `after` and not after `upto`, the newest first. About half a minute behind.

    warehouse_id -- only of this warehouse, or of none (NO_WAREHOUSE); None: of all. Raises NoSuchWarehouse, and BadRequest if there are too
    many.
    """
    await queries.authorize(context, Resource("project", context.project_id))
    async with queries.backends.connection() as connection:
        if warehouse_id is not None and warehouse_id != NO_WAREHOUSE:
            await warehouses.find(connection, context.project_id, warehouse_id)
            await queries.authorize(context, Resource("warehouse", warehouse_id))
        calls = await endpoint_statistics.read_calls(
            connection,
            context.project_id,
            after=after,
            upto=upto,
            warehouse_id=warehouse_id,
            status_codes=status_codes,
            limit=_ROWS_MAX + 1,
        )
    if len(calls) > _ROWS_MAX:
        raise BadRequest(f"More than {_ROWS_MAX} statistics in this window: name a shorter one, or one warehouse")
    return calls
