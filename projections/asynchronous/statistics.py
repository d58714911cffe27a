"""Counts the objects and commits of each warehouse by the hour (projections/statistics.py reads them)."""

from collections.abc import Sequence

from psycopg import Cursor
from psycopg.rows import DictRow

from ...database.advisory_locks import AdvisoryLock
from ...database.named_sql import named_sql
from ...domain.read_models.statistics import Counted, count
from ...domain.recorded import RecordedEvent
from .projection import AsynchronousProjection, AsynchronousView

_SQL = named_sql("icecore.projections", "statistics.sql")


class StatisticsView(AsynchronousView):
    """`icecore.warehouse_statistics`, with `icecore.statistics_tracking`."""

    def remove_rows(self, cursor: Cursor[DictRow]) -> None:
        cursor.execute(_SQL["remove"])

    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        counted: Counted = {}
        count(events, counted)
        for hour, (added, updated_at) in counted.items():
            values = {"warehouse_id": hour.warehouse_id, "hour": hour.begins_at, "updated_at": updated_at}
            counts = {"tables": added.tables, "views": added.views, "namespaces": added.namespaces, "commits": added.commits}
            cursor.execute(_SQL["add"], values | counts, prepare=True)


class StatisticsProjection(AsynchronousProjection):
    name = "statistics"
    VIEW = StatisticsView
    LEADER_LOCK = AdvisoryLock.STATISTICS
