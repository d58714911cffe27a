"""A limit on the reads of events that each project has in progress, so that its readers leave connections to those of others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakValueDictionary

from ..domain.errors import ServiceUnavailable

WAIT_SECONDS_MAX = 10.0
"""How long a read waits for others of its project."""


class ProjectLimit:
    """At most `reads_max` reads of one project at a time, first come, first served."""

    def __init__(self, reads_max: int) -> None:
        self._reads_max = reads_max
        # Reads in progress hold them, so only those of projects with readers are kept.
        self._semaphores: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def acquired(self, project_id: UUID) -> AsyncIterator[None]:
        """A block that reads events of the project. Raises ServiceUnavailable if too many others do not end in time."""
        semaphore = self._semaphores.setdefault(project_id, asyncio.Semaphore(self._reads_max))
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await semaphore.acquire()
        except TimeoutError:
            raise ServiceUnavailable("Too many other requests read events of the project; try again later", retry_after_seconds=1) from None
        try:
            yield
        finally:
            semaphore.release()
