"""Limits the undrops that read manifests, each of which needs processes of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakValueDictionary

from ...domain.errors import ServiceUnavailable

UNDROP_CHECKS_MAX = 2
CHECK_WAIT_SECONDS_MAX = 30.0


class UndropCheckLimit:
    """UNDROP_CHECKS_MAX at a time in this process, one of each project, so that the slow stores of one project do not delay the undrops of
    another."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(UNDROP_CHECKS_MAX)
        # Undrops in progress hold them.
        self._by_project: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def acquired(self, project_id: UUID) -> AsyncIterator[None]:
        """A block that reads manifests. Raises ServiceUnavailable if it cannot begin within CHECK_WAIT_SECONDS_MAX."""
        of_project = self._by_project.setdefault(project_id, asyncio.Semaphore(1))
        waiting = asyncio.timeout(CHECK_WAIT_SECONDS_MAX)
        try:
            async with waiting, of_project, self._all:
                # The limit is on the wait.
                waiting.reschedule(None)
                yield
        except TimeoutError:
            if waiting.expired():
                raise ServiceUnavailable("Too many undrops are checking files; try again later", retry_after_seconds=1) from None
            raise
