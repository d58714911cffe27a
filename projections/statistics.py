"""Queries of the statistics of warehouses, which projections/asynchronous/statistics.py counts."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.statistics import Counts

_SQL = named_sql("icecore.projections", "statistics.sql")


@dataclass(frozen=True, slots=True)
class HourlyStatistics:
    """counts -- objects that exist at the end of the hour, and commits in it. updated_at -- when the last event counted was recorded.

    Times are in UTC.
    """

    begins_at: datetime
    counts: Counts
    updated_at: datetime


async def read_page(
    connection: Connection, warehouse_id: UUID, *, before: datetime | None, size: int
) -> tuple[int, list[HourlyStatistics], bool]:
    """The position up to which the log is counted; the newest `size` hours that begin before `before` (None: of all), newest first;
    whether there are more.
    """
    parameters = {"warehouse_id": warehouse_id, "before": before, "limit": size + 1}
    found = await (await connection.execute(_SQL["page"], parameters, binary=True)).fetchall()
    assert found, "a migrated database has a position"
    rows = [row for _, *row in found if row[0] is not None]
    # Postgres returns them in the session's time zone, in which the end of an hour may be off by one hour.
    hours = [HourlyStatistics(begins_at.astimezone(UTC), Counts(*counts), at.astimezone(UTC)) for begins_at, *counts, at in rows[:size]]
    return int(found[0][0]), hours, len(rows) > size
