"""Large metadata files are worked on one at a time, and the memory that takes is given back to the system.

A parsed document takes up to fifty times its bytes, twice while it becomes an event and a state.
"""

import asyncio
import ctypes
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from domain.errors import TooManyRequests

DOCUMENT_WAIT_SECONDS_MAX = 30.0
"""How long a request waits for others' large documents before it is refused."""

# By then whoever worked on the document, and the error it may have ended with, has let go of it.
_TRIM_AFTER_SECONDS = 0.5


class LargeDocuments:
    """At most one large document in this process."""

    def __init__(self, wait_seconds_max: float = DOCUMENT_WAIT_SECONDS_MAX) -> None:
        self._free = asyncio.Semaphore(1)
        self._wait_seconds_max = wait_seconds_max
        self._trimming: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def reader(self) -> AsyncIterator["DocumentReader"]:
        """For one request, until it is done with what it has read."""
        reader = DocumentReader(self._free, self._wait_seconds_max)
        try:
            yield reader
        finally:
            if reader.large:
                self._free.release()
                self._trim()

    def _trim(self) -> None:
        if self._trimming is not None:
            # What was just let go of is not free yet.
            self._trimming.cancel()
        self._trimming = asyncio.create_task(_trim_soon(), name="trim-memory")


class DocumentReader:
    """One request's admission: it is waited for when its document is found large.

    large -- it was, and others wait until this request is done.
    """

    def __init__(self, free: asyncio.Semaphore, wait_seconds_max: float) -> None:
        self._free = free
        self._wait_seconds_max = wait_seconds_max
        self.large = False

    async def admit_large(self) -> None:
        """Returns when no other request works on a large document. TooManyRequests after too long a wait."""
        if self.large:
            return
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                await self._free.acquire()
        except TimeoutError:
            reason = f"Large metadata files are read one at a time, and others took longer than {self._wait_seconds_max:g} s"
            raise TooManyRequests(reason) from None
        self.large = True


async def _trim_soon() -> None:
    await asyncio.sleep(_TRIM_AFTER_SECONDS)
    if (trim := _malloc_trim()) is not None:
        await asyncio.to_thread(trim, 0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's own: freed memory between what is in use stays with the process without it. None where the C library has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
