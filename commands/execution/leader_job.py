"""A background job of the worker that one process performs at a time. It can be stopped at any moment."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import structlog

from ...database.advisory_locks import AdvisoryLock, holds, try_lock, unlock
from ...database.connections import Connection
from ...database.outage_log import OutageLog
from ...domain.errors import CatalogError, ServiceUnavailable
from .executor import CommandExecutor

_log = structlog.get_logger("icecore.jobs")

POLL_SECONDS = 1.0
FENCE_SECONDS_MAX = 10.0
"""How long Postgres may take to confirm that this process is still the leader, before something is deleted."""


class LeadershipLost(ServiceUnavailable, status=503, type="ServiceUnavailableException"):
    """Another process may lead by now and may assume that this one deletes nothing any more."""


@dataclass(slots=True)
class JobMetrics:
    """Counters for the metrics: runs that succeeded and failed, and items done."""

    succeeded: int = 0
    failed: int = 0
    items: int = 0


class LeaderJob(ABC):
    """Runs until it is stopped. One of several processes is the leader, which holds the job's advisory lock."""

    NAME: str
    LEADER_LOCK: AdvisoryLock

    def __init__(self, executor: CommandExecutor) -> None:
        self._executor = executor
        self.metrics = JobMetrics()
        self._task: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.jobs", "job_retrying", "job_recovered", job=self.NAME)

    @abstractmethod
    async def run_once(self) -> int:
        """Does the pending work, through `lead`. Returns the number of items done."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.NAME)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def lead(self, work: Callable[[Connection], Awaitable[int]]) -> int:
        """Returns the result of `work` on the leading connection; 0 if another process is the leader."""
        # The connection is held for the whole work. A statement on it is cut off only if Postgres does not respond to any connection.
        async with self._executor.backends.session_connections.connection(math.inf) as leading:
            if not await try_lock(leading, self.LEADER_LOCK):
                return 0
            try:
                return await work(leading)
            finally:
                await self._stop_leading(leading)

    async def leads(self, leading: Connection) -> bool:
        """Whether the leading connection still holds the lock."""
        return await holds(leading, self.LEADER_LOCK)

    async def _stop_leading(self, leading: Connection) -> None:
        # A session that has ended does not hold the lock. Its error must not replace the one that ended the work, such as a cancellation.
        with suppress(psycopg.OperationalError):
            if not await unlock(leading, self.LEADER_LOCK):
                _log.warning("leader_lock_not_held", job=self.NAME)

    async def _run(self) -> None:
        while True:
            try:
                self.metrics.items += await self.run_once()
                self.metrics.succeeded += 1
                self._outage.succeeded()
            except CatalogError as error:
                self.metrics.failed += 1
                self._outage.failed(error=error.message)
            except Exception as error:
                # An unexpected exception in one round must not end the job.
                self.metrics.failed += 1
                self._outage.failed(type(error), began="job_failed", exc_info=error)
            await asyncio.sleep(POLL_SECONDS)
