"""Limits the large documents that a process works on at a time, and returns their memory to the operating system.

A parsed document takes up to fifty times its bytes, and twice that while an event and a state are made of it. A document that is only
read takes four times its bytes.
"""

import asyncio
import ctypes
import functools
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ..domain.errors import TooManyRequests

DOCUMENT_WAIT_SECONDS_MAX = 30.0
"""How long a request waits for others' large documents before it is refused."""

LARGE_BYTES_MIN = 1024 * 1024
"""Documents smaller than this are not counted: the limit on connections is enough."""

BYTES_CONCURRENT_MAX = 32 * 1024 * 1024
"""Default limit on the total JSON size of the documents that are worked on at a time. A single document may be larger."""

# By then nothing refers to the document any more, including the traceback of an error.
_TRIM_AFTER_SECONDS = 0.5


class ReservationWaitEnded(Exception):
    """The wait for memory was ended, because a request ahead of it waits for the queue that the waiting one holds."""


class LargeDocuments:
    """At most `bytes_max` bytes of large documents in this process. Requests wait first in, first out."""

    def __init__(self, bytes_max: int = BYTES_CONCURRENT_MAX, wait_seconds_max: float = DOCUMENT_WAIT_SECONDS_MAX) -> None:
        self.bytes_max, self._wait_seconds_max = bytes_max, wait_seconds_max
        self._bytes_in_use = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._trimming: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def reservation(self, may_wait: Callable[[], bool] = lambda: True) -> AsyncIterator["DocumentReservation"]:
        """The reservation of one request, released at the end of the block.

        may_wait -- called before a wait. A request that holds the queue of an object returns False if another waits for that queue:
            the other may hold a reservation, and the two would deadlock.
        """
        reservation = DocumentReservation(self, may_wait)
        try:
            yield reservation
        finally:
            if reservation.size:
                self.release(reservation.size)
                self._trim()

    def reserve(self, size: int) -> "asyncio.Future[None] | None":
        """Reserves `size` bytes and returns None; if there is no room, returns the future to pass to `wait`."""
        if not self._waiting and self._fits(size):
            self._bytes_in_use += size
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, waiter))
        return waiter

    async def wait(self, size: int, waiter: "asyncio.Future[None]") -> None:
        """Returns once the bytes are reserved. Raises TooManyRequests after `wait_seconds_max`."""
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                await waiter
        except BaseException as error:
            if (size, waiter) in self._waiting:
                self._waiting.remove((size, waiter))
                self._admit()
            elif not waiter.cancelled() and waiter.exception() is None:
                self.release(size)
            if isinstance(error, TimeoutError):
                reason = f"The request waited {self._wait_seconds_max:g} s for memory that other requests use; try again later"
                raise TooManyRequests(reason) from None
            raise

    def _fits(self, size: int) -> bool:
        return self._bytes_in_use == 0 or self._bytes_in_use + size <= self.bytes_max

    def release(self, size: int) -> None:
        self._bytes_in_use -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, waiter = self._waiting.popleft()
            if not waiter.done():
                self._bytes_in_use += size
                waiter.set_result(None)

    def _trim(self) -> None:
        if self._trimming is not None:
            # The memory of the latest document is not free yet.
            self._trimming.cancel()
        self._trimming = asyncio.create_task(_trim_soon(), name="trim-memory")


class DocumentReservation:
    """The memory that one request has reserved: none until it finds that its document is large.

    size -- the bytes reserved.
    """

    def __init__(self, documents: LargeDocuments, may_wait: Callable[[], bool] = lambda: True) -> None:
        self._documents, self._may_wait = documents, may_wait
        self._waiter: asyncio.Future[None] | None = None
        self.size = 0

    async def reserve(self, size: int) -> None:
        """Reserves once for all documents of the request: waiting twice could deadlock. Raises TooManyRequests, ReservationWaitEnded."""
        if self.size:
            return
        self._waiter = self._documents.reserve(size)
        if self._waiter is not None:
            if not self._may_wait():
                self.end_wait()
            try:
                await self._documents.wait(size, self._waiter)
            finally:
                self._waiter = None
        self.size = size

    def end_wait(self) -> bool:
        """Ends the wait by raising ReservationWaitEnded in the waiting task. Returns whether there was a wait."""
        if self._waiter is None or self._waiter.done():
            return False
        self._waiter.set_exception(ReservationWaitEnded())
        return True

    @property
    def bytes_max(self) -> int:
        """The limit on all documents."""
        return self._documents.bytes_max

    async def reserve_if_large(self, size: int) -> None:
        """As `reserve`; nothing for documents that are not counted."""
        if size >= LARGE_BYTES_MIN:
            await self.reserve(size)

    async def reserve_anew(self, size: int) -> None:
        """As `reserve_if_large`, instead of what is reserved, for example by an earlier attempt. Not while holding an object's queue."""
        self.shrink(0)
        await self.reserve_if_large(size)

    async def reserve_all(self) -> None:
        """Reserves the whole limit for a document of unknown structure. Call `shrink` once its needs are known."""
        await self.reserve(self.bytes_max)

    def shrink(self, size: int) -> None:
        """Releases what exceeds `size`."""
        if size < self.size:
            self._documents.release(self.size - size)
            self.size = size


async def _trim_soon() -> None:
    await asyncio.sleep(_TRIM_AFTER_SECONDS)
    if (trim := _malloc_trim()) is not None:
        await asyncio.to_thread(trim, 0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim: returns freed memory that lies between memory in use. None if the C library does not have it."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
