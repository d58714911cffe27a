"""A background job of the worker that one process performs at a time. It can be stopped at any moment."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress

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
"""How long Postgres may take to say that this process still leads, before something is deleted."""


class LeadershipLost(ServiceUnavailable, status=503, type="ServiceUnavailableException"):
    """Another process may lead by now, and rely on what this one had no time to say: nothing may be deleted any more."""


class LeaderJob(ABC):
    """Runs until it is stopped; of several processes one leads, by an advisory lock, which is the job's alone."""

    NAME: str
    LEADER_LOCK: AdvisoryLock

    def __init__(self, executor: CommandExecutor) -> None:
        self._executor = executor
        self._task: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.jobs", "job_retrying", "job_recovered", job=self.NAME)

    @abstractmethod
    async def run_once(self) -> int:
        """Does what waits, by `lead`; how much it was."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.NAME)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def lead(self, work: Callable[[Connection], Awaitable[int]]) -> int:
        """What `work` comes to on the leading connection; 0 where another process leads."""
        # It is held for as long as the work takes; a statement on it is cut only where Postgres answers nobody.
        async with self._executor.backends.connections.connection(math.inf) as leading:
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
        # A session that has ended leads no more; its error must not take the place of what ended the work, a cancellation above all.
        with suppress(psycopg.OperationalError):
            if not await unlock(leading, self.LEADER_LOCK):
                _log.warning("leader_lock_not_held", job=self.NAME)

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
                self._outage.succeeded()
            except CatalogError as error:
                self._outage.failed(error=error.message)
            except Exception as error:
                # A fault of ours in one round must not end all that follow.
                self._outage.failed(type(error), began="job_failed", exc_info=error)
            await asyncio.sleep(POLL_SECONDS)
