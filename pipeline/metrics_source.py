"""Reads the metrics reports of engines as rows of `scan_reports` and `commit_reports`, on executors, from Postgres."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ..database.connections import Connection
from ..database.named_sql import named_sql
from .landed_tables import COMMIT_REPORTS, SCAN_REPORTS, LandedTable
from .log_source import PositionRange, connect_source
from .session import DataFrame, SparkSession

_SQL = named_sql("icecore.pipeline", "metrics_source.sql")

RANGE_REPORTS = 2_500
"""Reports that one task reads."""
READ_REPORTS_MAX = 100
"""Reports in memory at a time; the catalog accepts reports of up to 256 KiB."""
_SECONDS = {
    "nanoseconds": 1e-9,
    "microseconds": 1e-6,
    "milliseconds": 1e-3,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3_600.0,
    "days": 86_400.0,
}
"""The length of each time unit that a timer may have."""
_TEXT_MAX = 256
"""Characters of names in reports that are landed."""
_LONG_MAX = 2**63 - 1
_INTEGER_MAX = 2**31 - 1


class StoredReport(NamedTuple):
    """A metrics report with what the catalog stored about it. content -- the report as the client sent it, JSON."""

    position: int
    report_id: UUID
    received_at: datetime
    table_id: UUID
    warehouse_id: UUID | None
    actor: str | None
    content: bytes


@dataclass(frozen=True, slots=True)
class ReportBatch:
    """The metrics reports of one commit. ranges -- of their positions, in order, with RANGE_REPORTS reports each. count -- of all."""

    ranges: Sequence[PositionRange]
    count: int

    @property
    def to(self) -> int:
        """The position of the last report."""
        return self.ranges[-1][1]


@dataclass(frozen=True, slots=True)
class MetricsSource:
    """The metrics reports in a database, except those about tables of the warehouse `pipeline_warehouse_id`."""

    dsn: str = field(repr=False)
    pipeline_warehouse_id: UUID

    def batch(self, table: LandedTable, after: int, limit: int) -> ReportBatch | None:
        """The next reports for a table after a position, at most `limit`; None if there is none."""
        return asyncio.run(self._batch(table, after, limit))

    async def _batch(self, table: LandedTable, after: int, limit: int) -> ReportBatch | None:
        parameters = {**self._parameters(table), "after": after, "limit": limit, "range_reports": RANGE_REPORTS}
        async with await connect_source(self.dsn) as connection:
            ends = await (await connection.execute(_SQL["batch"], parameters)).fetchall()
        starts = [after, *(position for position, _ in ends)]
        return ReportBatch(tuple(pairwise(starts)), ends[-1][1]) if ends else None

    def last_position(self) -> int:
        """The position of the newest report; 0 if there is none."""
        return asyncio.run(self._last_position())

    async def _last_position(self) -> int:
        async with await connect_source(self.dsn) as connection:
            [(last,)] = await (await connection.execute(_SQL["last_position"])).fetchall()
        return last or 0

    def reports(self, spark: SparkSession, table: LandedTable, batch: ReportBatch) -> DataFrame:
        """The rows of a table for a batch. Each of its ranges is read by one task."""
        rows = spark.sparkContext.parallelize(batch.ranges, len(batch.ranges)).mapPartitions(partial(self.read, table))
        return spark.createDataFrame(rows, table.schema, verifySchema=False)

    def read(self, table: LandedTable, ranges: Iterable[PositionRange]) -> Iterator[tuple[Any, ...]]:
        """The rows of a table for the reports in these ranges."""
        row = _ROWS[table.name]
        with asyncio.Runner() as runner:
            connection = runner.run(connect_source(self.dsn))
            try:
                for after, to in ranges:
                    position = after
                    while reports := runner.run(self._read(connection, table, position, to)):
                        yield from map(row, reports)
                        position = reports[-1].position
            finally:
                runner.run(connection.close())

    async def _read(self, connection: Connection, table: LandedTable, after: int, to: int) -> list[StoredReport]:
        parameters = {**self._parameters(table), "after": after, "to": to, "limit": READ_REPORTS_MAX}
        cursor = await connection.execute(_SQL["reports"], parameters, binary=True)
        return [StoredReport(*row) for row in await cursor.fetchall()]

    def _parameters(self, table: LandedTable) -> dict[str, Any]:
        return {"report_type": _REPORT_TYPES[table.name], "pipeline_warehouse": self.pipeline_warehouse_id}


def scan_report_row(stored: StoredReport) -> tuple[Any, ...]:
    """A row of `scan_reports`, in the order of its columns. What a report lacks, or has in another type, is NULL."""
    report = _Report(stored.content)
    return (
        *_common_columns(stored, report),
        report.integer("schema-id", _INTEGER_MAX),
        report.json("filter"),
        report.texts("projected-field-names"),
        report.seconds("total-planning-duration"),
        report.count("result-data-files"),
        report.count("result-delete-files"),
        report.count("total-file-size-in-bytes"),
        report.count("skipped-data-files"),
        report.count("scanned-data-manifests"),
        report.count("skipped-data-manifests"),
    )


def commit_report_row(stored: StoredReport) -> tuple[Any, ...]:
    """A row of `commit_reports`, in the order of its columns. What a report lacks, or has in another type, is NULL."""
    report = _Report(stored.content)
    return (
        *_common_columns(stored, report),
        report.integer("sequence-number"),
        report.text("operation"),
        report.seconds("total-duration"),
        report.count("attempts", _INTEGER_MAX),
        report.count("added-data-files"),
        report.count("removed-data-files"),
        report.count("added-records"),
        report.count("removed-records"),
    )


def _common_columns(stored: StoredReport, report: "_Report") -> tuple[Any, ...]:
    """Those that both tables begin with."""
    position, report_id, received_at, table_id, warehouse_id, actor, _ = stored
    warehouse = None if warehouse_id is None else str(warehouse_id)
    metadata = report.metadata()
    engine = " ".join(metadata[key] for key in ("engine-name", "engine-version") if metadata.get(key))[:_TEXT_MAX]
    return (
        *(position, str(report_id), received_at, str(table_id), warehouse, actor),
        *(engine or None, report.text("table-name"), report.integer("snapshot-id"), metadata),
    )


_ROWS: Mapping[str, Callable[[StoredReport], tuple[Any, ...]]] = {
    SCAN_REPORTS.name: scan_report_row,
    COMMIT_REPORTS.name: commit_report_row,
}
_REPORT_TYPES = {SCAN_REPORTS.name: "scan-report", COMMIT_REPORTS.name: "commit-report"}


class _Report:
    """Reads members of a report. Clients write reports, and the catalog checks only that they are JSON objects with a type."""

    def __init__(self, content: bytes) -> None:
        self._members = _object(orjson.loads(content))
        self._metrics = _object(self._members.get("metrics"))

    def metadata(self) -> dict[str, str]:
        return {name: value for name, value in _object(self._members.get("metadata")).items() if isinstance(value, str)}

    def text(self, name: str) -> str | None:
        value = self._members.get(name)
        return value[:_TEXT_MAX] if isinstance(value, str) else None

    def texts(self, name: str) -> list[str]:
        value = self._members.get(name)
        return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []

    def integer(self, name: str, maximum: int = _LONG_MAX) -> int | None:
        return _integer(self._members.get(name), -maximum, maximum)

    def json(self, name: str) -> str | None:
        """None also for what is nested too deeply to be written."""
        value = self._members.get(name)
        try:
            return None if value is None else orjson.dumps(value).decode()
        except orjson.JSONEncodeError:
            return None

    def count(self, name: str, maximum: int = _LONG_MAX) -> int | None:
        """The value of a counter."""
        return _integer(_object(self._metrics.get(name)).get("value"), 0, maximum)

    def seconds(self, name: str) -> float | None:
        """The total of a timer."""
        timer = _object(self._metrics.get(name))
        total, unit = _integer(timer.get("total-duration"), 0, _LONG_MAX), timer.get("time-unit")
        factor = _SECONDS.get(unit.lower()) if isinstance(unit, str) else None
        return None if total is None or factor is None else total * factor


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _integer(value: Any, minimum: int, maximum: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum else None
