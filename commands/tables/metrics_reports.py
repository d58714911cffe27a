"""Stores metrics reports in the background, within limits, so that they do not delay requests. Some can be lost."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.backends import Backends
from ...database.advisory_locks import AdvisoryLock
from ...database.named_sql import named_sql
from ...database.outage_log import OutageLog
from ...domain.client_errors import client_error_text

_SQL = named_sql("icecore.commands.tables", "metrics_reports.sql")

QUEUE_REPORTS_MAX = 2_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
"""Limit on the reports that wait or are being written. Those of one warehouse have half of it, so that it cannot push out those of others;
the first report is accepted whatever its size.
"""
_BATCH_REPORTS_MAX = 100
_BATCH_BYTES_MAX = 1024 * 1024
"""Limit on one statement, which may exceed it by one report. Postgres's form of a report takes several times its bytes."""
REPORT_TYPES = frozenset({"scan-report", "commit-report"})
OTHER_TYPE = "other"
"""For reports of types that the spec does not have: they are stored, too."""
STORED_BYTES_MAX = 1024 * 1024 * 1024
"""Limit on the reports in the table."""
_DELETE_EVERY_BATCHES = 100
CLOSE_SECONDS_MAX = 5.0
"""How long a server that stops writes the reports that wait."""


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """A report of an engine.

    actor -- the principal that sent it. report_type -- one of REPORT_TYPES, or OTHER_TYPE. content -- the body of the request.
    """

    table_id: UUID
    warehouse_id: UUID
    actor: str
    report_type: str
    content: bytes
    received_at: datetime = field(default_factory=lambda: datetime.now(UTC))


class MetricsReports:
    """Writes reports in the background, and drops new ones while its queue is full.

    reports_max, bytes_max -- limits on the stored reports. Beyond them, the oldest are deleted, first of warehouses with more than half.
    """

    def __init__(self, backends: Backends, reports_max: int, bytes_max: int = STORED_BYTES_MAX) -> None:
        self._backends = backends
        self._reports_max, self._bytes_max = reports_max, bytes_max
        self._queue: asyncio.Queue[MetricsReport] = asyncio.Queue(QUEUE_REPORTS_MAX)
        self._unwritten: Counter[UUID] = Counter()
        """Of each warehouse with reports that wait or are being written: their number."""
        self._bytes: Counter[UUID] = Counter()
        """The same in bytes."""
        self._task: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.metrics", "metrics_reports_lost", "metrics_reports_recovered")

    def start(self) -> None:
        self._task = asyncio.create_task(self._write(), name="metrics-reports")

    async def close(self) -> None:
        """Writes what waits. What cannot be written in CLOSE_SECONDS_MAX is lost."""
        if self._task is None:
            self.start()
        assert self._task is not None
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._queue.join()
        except TimeoutError:
            self._outage.failed("close", reports=self._unwritten.total(), error="The server stopped before they could be written")
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    def enqueue(self, report: MetricsReport) -> None:
        """Puts the report in the queue, or drops it if the queue is full or none are kept."""
        if not self._reports_max:
            return
        if self._is_full_for(report):
            limits = {"queue_reports_max": QUEUE_REPORTS_MAX, "queue_bytes_max": QUEUE_BYTES_MAX}
            self._outage.failed("queue", began="metrics_report_dropped", **limits)
            return
        self._queue.put_nowait(report)
        self._unwritten[report.warehouse_id] += 1
        self._bytes[report.warehouse_id] += len(report.content)

    def _is_full_for(self, report: MetricsReport) -> bool:
        size, all_bytes = len(report.content), self._bytes.total()
        reports, of_warehouse = self._unwritten[report.warehouse_id], self._bytes[report.warehouse_id]
        if self._queue.full() or (all_bytes > 0 and all_bytes + size > QUEUE_BYTES_MAX):
            return True
        return reports >= QUEUE_REPORTS_MAX // 2 or (of_warehouse > 0 and of_warehouse + size > QUEUE_BYTES_MAX // 2)

    async def _write(self) -> None:
        batches = 0
        while True:
            batch = self._batch([await self._queue.get()])
            await self._insert(batch, delete_oldest=batches % _DELETE_EVERY_BATCHES == 0)
            batches += 1

    def _batch(self, batch: list[MetricsReport]) -> list[MetricsReport]:
        size = sum(len(each.content) for each in batch)
        while len(batch) < _BATCH_REPORTS_MAX and size < _BATCH_BYTES_MAX and not self._queue.empty():
            batch.append(self._queue.get_nowait())
            size += len(batch[-1].content)
        return batch

    async def _insert(self, batch: list[MetricsReport], *, delete_oldest: bool = False) -> None:
        try:
            async with self._backends.connection() as connection:
                await connection.execute(
                    _SQL["insert"],
                    {
                        "lock": AdvisoryLock.METRICS_REPORTS,
                        "report_ids": [uuid7() for _ in batch],
                        "table_ids": [report.table_id for report in batch],
                        "warehouse_ids": [report.warehouse_id for report in batch],
                        "actors": [report.actor for report in batch],
                        "received_at": [report.received_at for report in batch],
                        "report_types": [report.report_type for report in batch],
                        "reports": [report.content for report in batch],
                    },
                )
                if delete_oldest:
                    await connection.execute(_SQL["delete_oldest"], {"reports_max": self._reports_max, "bytes_max": self._bytes_max})
            self._outage.succeeded()
        except Exception as error:
            # Any error: later reports must still be written.
            self._outage.failed("lost", reports=len(batch), error=client_error_text(error))
        finally:
            for each in batch:
                self._unwritten[each.warehouse_id] -= 1
                self._bytes[each.warehouse_id] -= len(each.content)
                self._queue.task_done()
            self._unwritten, self._bytes = +self._unwritten, +self._bytes
