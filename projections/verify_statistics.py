"""Verifies the statistics: counts the log again, up to the position that they have reached."""

from datetime import datetime
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.statistics import Counted, Counts, count
from ..domain.recorded import RecordedEvent
from .verify_report import VerifyReport
from .verify_tracking import check_position, tracked_position

_SQL = named_sql("icecore.projections", "statistics.sql")
_COLUMNS = ("tables", "views", "namespaces", "commits", "updated_at")


class StatisticsCheck:
    """Counts every event of the log that is added, then compares."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._counted: Counted = {}

    @classmethod
    async def begin(cls, connection: Connection, report: VerifyReport) -> "StatisticsCheck":
        return cls(await tracked_position(connection, report, "statistics_tracking", _SQL["tracking"]))

    def add(self, event: RecordedEvent) -> None:
        if event.position <= self._position:
            count([event], self._counted)

    async def compare(self, connection: Connection, report: VerifyReport) -> None:
        check_position(report, "statistics_tracking", self._position)
        rows: dict[tuple[UUID, datetime], tuple[object, ...]] = {}
        hours_in_order = sorted(self._counted, key=attrgetter("warehouse_id", "begins_at"))
        for _, hours in groupby(hours_in_order, attrgetter("warehouse_id")):
            total = Counts()
            for hour in hours:
                added, updated_at = self._counted[hour]
                total += added
                values = (total.tables, total.views, total.namespaces, added.commits, updated_at)
                rows[hour.warehouse_id, hour.begins_at] = values
        every = await (await connection.execute(_SQL["every"], binary=True)).fetchall()
        found = {(warehouse_id, begins_at): tuple(values) for warehouse_id, begins_at, *values in every}
        for key in sorted(rows.keys() | found.keys()):
            wanted, row = rows.get(key), found.get(key)
            where = f"warehouse_id {key[0]}, hour {key[1]}"
            if wanted is None or row is None:
                report.add("warehouse_statistics", where, None, wanted, row)
                continue
            for column, value, other in zip(_COLUMNS, wanted, row, strict=True):
                if value != other:
                    report.add("warehouse_statistics", where, column, value, other)
