"""Stores metrics reports in the background, within limits, so that they do not delay requests."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.backends import Backends
from ...database.named_sql import named_sql
from ...database.outage_log import OutageLog
from ...domain.client_errors import client_error_text

_SQL = named_sql("icecore.commands.tables", "metrics_reports.sql")

QUEUE_REPORTS_MAX = 1_000
QUEUE_BYTES_MAX = 16 * 1024 * 1024
"""Limit on the reports that wait or are being written. The first report is accepted whatever its size."""
_BATCH_REPORTS_MAX = 100
_BATCH_BYTES_MAX = 1024 * 1024
"""Limit on one statement, which may exceed it by one report. Postgres's form of a report takes several times its bytes."""
KEPT_BYTES_MAX = 1024 * 1024 * 1024
"""Limit on the reports in the table."""
_FORGET_EVERY_BATCHES = 100


@dataclass(frozen=True, slots=True)
class _Report:
    table_id: UUID
    received_at: datetime
    report: bytes


class MetricsReports:
    """Writes reports in the background, and drops new ones while its queue is full.

    reports_max, bytes_max -- limits on the stored reports; the oldest are deleted.
    """

    def __init__(self, backends: Backends, reports_max: int, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._backends = backends
        self._reports_max, self._bytes_max = reports_max, bytes_max
        self._queue: asyncio.Queue[_Report] = asyncio.Queue(QUEUE_REPORTS_MAX)
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.metrics", "metrics_reports_lost", "metrics_reports_recovered")

    def start(self) -> None:
        self._task = asyncio.create_task(self._write(), name="metrics-reports")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._queue.empty():
            await self._keep(self._batch([]))

    def offer(self, table_id: UUID, report: bytes) -> None:
        if self._queue.full() or (self._bytes and self._bytes + len(report) > QUEUE_BYTES_MAX):
            limits = {"queue_reports_max": QUEUE_REPORTS_MAX, "queue_bytes_max": QUEUE_BYTES_MAX}
            self._outage.failed("queue", began="metrics_report_dropped", **limits)
            return
        self._queue.put_nowait(_Report(table_id, datetime.now(UTC), report))
        self._bytes += len(report)

    async def _write(self) -> None:
        batches = 0
        while True:
            batch = self._batch([await self._queue.get()])
            await self._keep(batch, forget=batches % _FORGET_EVERY_BATCHES == 0)
            batches += 1

    def _batch(self, batch: list[_Report]) -> list[_Report]:
        size = sum(len(each.report) for each in batch)
        while len(batch) < _BATCH_REPORTS_MAX and size < _BATCH_BYTES_MAX and not self._queue.empty():
            batch.append(self._queue.get_nowait())
            size += len(batch[-1].report)
        return batch

    async def _keep(self, batch: list[_Report], *, forget: bool = False) -> None:
        try:
            async with self._backends.connection() as connection:
                await connection.execute(
                    _SQL["keep"],
                    {
                        "report_ids": [uuid7() for _ in batch],
                        "table_ids": [report.table_id for report in batch],
                        "received_at": [report.received_at for report in batch],
                        "reports": [report.report for report in batch],
                    },
                )
                if forget:
                    await connection.execute(_SQL["forget"], {"reports_max": self._reports_max, "bytes_max": self._bytes_max})
            self._outage.succeeded()
        except Exception as error:
            # Any error: later reports must still be written.
            self._outage.failed("lost", reports=len(batch), error=client_error_text(error))
        finally:
            self._bytes -= sum(len(each.report) for each in batch)
