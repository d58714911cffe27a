"""Loads the statistics of a warehouse: objects and commits by the hour."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..projections import statistics, warehouses
from ..projections.statistics import HourlyStatistics
from .executor import QueryExecutor

__all__ = ["HourlyStatistics", "StatisticsPage", "load_statistics"]


@dataclass(frozen=True, slots=True)
class StatisticsPage:
    """Hours, the newest first.

    position -- the log is counted at least up to it. next_before -- where the next page begins, if there is one.
    """

    position: int
    hours: list[HourlyStatistics]
    next_before: datetime | None


async def load_statistics(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, *, before: datetime | None, size: int
) -> StatisticsPage:
    """At most `size` hours that begin before `before` (None: the newest); about a second behind the log. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
    await queries.authorize(context, Resource("warehouse", warehouse_id))
    async with queries.backends.connection() as connection:
        position, hours, more = await statistics.read_page(connection, warehouse_id, before=before, size=size)
    return StatisticsPage(position, hours, hours[-1].begins_at if more else None)
