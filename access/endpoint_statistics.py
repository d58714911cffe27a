"""Counts the calls of each operation in memory, and adds them to the database in the background: a request waits for nothing."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from ..database.outage_log import OutageLog
from ..domain.client_errors import client_error_text
from ..projections.endpoint_statistics import NO_WAREHOUSE, CountedCalls, add_calls, forget_calls
from .backends import Backends

FLUSH_SECONDS = 30.0
"""How far the statistics may lag. As in Lakekeeper."""
KEPT_DAYS = 90
_COUNTERS_MAX = 10_000
"""Limit on the counters between two flushes. Beyond it, further calls are counted without their warehouse."""
_PROJECT_COUNTERS_MAX = 2_000
"""Limit on the counters of one project, so that made-up warehouse ids of one project do not use up _COUNTERS_MAX."""
_HOUR_SECONDS = 3600

# Project, hours since 1970, warehouse, route, status.
_Key = tuple[UUID, int, UUID, str, int]


@dataclass(slots=True)
class _Counter:
    count: int
    first_at: float
    last_at: float


class EndpointStatistics:
    """The counters of one process.

    They are approximate: those of a process that is killed are lost from its last flush on, and those of a flush are counted twice if its
    connection is lost after Postgres committed it and before the response arrived.
    """

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._counters: dict[_Key, _Counter] = {}
        self._counters_of: Counter[UUID] = Counter()
        self._forgot_at = 0.0
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.statistics", "endpoint_statistics_not_written", "endpoint_statistics_recovered")

    def start(self) -> None:
        self._task = asyncio.create_task(self._write(), name="endpoint-statistics")

    async def close(self) -> None:
        """Writes what is counted."""
        if self._task is not None:
            # Not cancelled: it would be unknown whether a cancelled statement took effect.
            self._stop.set()
            await self._task
            # What was counted during its last flush.
            await self._flush()

    def count(self, project_id: UUID, warehouse_id: UUID | None, http_route: str, status_code: int) -> None:
        """Counts a call. Without `start`, nothing is counted."""
        if self._task is None:
            return
        now = time.time()
        key = (project_id, int(now // _HOUR_SECONDS), warehouse_id or NO_WAREHOUSE, http_route, status_code)
        counter = self._counters.get(key)
        if counter is None:
            self._add(key, _Counter(1, now, now))
        else:
            counter.count += 1
            counter.last_at = now

    def _add(self, key: _Key, counted: _Counter) -> None:
        counter = self._counters.get(key)
        full = len(self._counters) >= _COUNTERS_MAX or self._counters_of[key[0]] >= _PROJECT_COUNTERS_MAX
        if counter is None and full:
            project_id, hour, _, http_route, status_code = key
            key = (project_id, hour, NO_WAREHOUSE, http_route, status_code)
            counter = self._counters.get(key)
        if counter is None:
            self._counters[key] = counted
            self._counters_of[key[0]] += 1
            return
        counter.count += counted.count
        counter.first_at = min(counter.first_at, counted.first_at)
        counter.last_at = max(counter.last_at, counted.last_at)

    async def _write(self) -> None:
        while not self._stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    await self._stop.wait()
            await self._flush()

    async def _flush(self) -> None:
        counters, self._counters = self._counters, {}
        self._counters_of.clear()
        if not counters:
            return
        try:
            async with self._backends.connection() as connection:
                await add_calls(connection, [_counted(key, counter) for key, counter in counters.items()])
                counters = {}
                if time.time() - self._forgot_at > _HOUR_SECONDS:
                    await forget_calls(connection, datetime.now(UTC) - timedelta(days=KEPT_DAYS))
                    self._forgot_at = time.time()
            self._outage.succeeded()
        except Exception as error:
            # Any error: the next flush writes them.
            for key, counter in counters.items():
                self._add(key, counter)
            self._outage.failed(type(error), error=client_error_text(error))


def _counted(key: _Key, counter: _Counter) -> CountedCalls:
    project_id, hour, warehouse_id, http_route, status_code = key
    begins_at, first_at, last_at = (datetime.fromtimestamp(at, UTC) for at in (hour * _HOUR_SECONDS, counter.first_at, counter.last_at))
    return CountedCalls(project_id, begins_at, warehouse_id, http_route, status_code, counter.count, first_at, last_at)
