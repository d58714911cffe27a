"""Limits the large documents that a process works on at a time, and returns their memory to the system.

A parsed document takes up to fifty times its bytes, and twice that while it becomes an event and a state. One that is only read takes four
times its bytes.
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
"""Documents below this are not counted: a connection each is bound enough."""

BYTES_AT_ONCE_MAX = 32 * 1024 * 1024
"""Of documents that are worked on at one time, as JSON, where no setting says more; one that is alone may have more."""

# By then whoever worked on the document, and the error it may have ended with, has let go of it.
_TRIM_AFTER_SECONDS = 0.5


class SteppedBack(Exception):
    """A share was not waited for any longer: what is ahead of it needs what its holder has."""


class LargeDocuments:
    """At most `bytes_max` of large documents in this process; who waits is let in in the order they came."""

    def __init__(self, bytes_max: int = BYTES_AT_ONCE_MAX, wait_seconds_max: float = DOCUMENT_WAIT_SECONDS_MAX) -> None:
        self.bytes_max, self._wait_seconds_max = bytes_max, wait_seconds_max
        self._held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._trimming: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def share(self, may_wait: Callable[[], bool] = lambda: True) -> AsyncIterator["DocumentShare"]:
        """For one request, until it is done with what it has read.

        may_wait -- asked by who holds the queue of an object already: others may hold a share and wait for that queue, and the two would
            wait for each other.
        """
        share = DocumentShare(self, may_wait)
        try:
            yield share
        finally:
            if share.size:
                self.give_back(share.size)
                self._trim()

    def take(self, size: int) -> "asyncio.Future[None] | None":
        """None where there is room for so many bytes, which are taken; else what `wait` waits for."""
        if not self._waiting and self._fits(size):
            self._held += size
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        return turn

    async def wait(self, size: int, turn: "asyncio.Future[None]") -> None:
        """Returns when there is room. TooManyRequests after too long a wait."""
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                await turn
        except BaseException as error:
            if (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
                self._let_in()
            elif not turn.cancelled() and turn.exception() is None:
                self.give_back(size)
            if isinstance(error, TimeoutError):
                reason = f"Other requests for large tables or metadata files took longer than {self._wait_seconds_max:g} s"
                raise TooManyRequests(reason) from None
            raise

    def _fits(self, size: int) -> bool:
        return self._held == 0 or self._held + size <= self.bytes_max

    def give_back(self, size: int) -> None:
        self._held -= size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._held += size
                turn.set_result(None)

    def _trim(self) -> None:
        if self._trimming is not None:
            # What was just let go of is not free yet.
            self._trimming.cancel()
        self._trimming = asyncio.create_task(_trim_soon(), name="trim-memory")


class DocumentShare:
    """One request's share; it is waited for when its document is found large.

    size -- bytes it has; 0 before.
    """

    def __init__(self, documents: LargeDocuments, may_wait: Callable[[], bool] = lambda: True) -> None:
        self._documents, self._may_wait = documents, may_wait
        self._turn: asyncio.Future[None] | None = None
        self.size = 0

    async def take(self, size: int) -> None:
        """Once, for all that the request works on: to wait with a share in hand could be for ever. TooManyRequests, SteppedBack."""
        if self.size:
            return
        self._turn = self._documents.take(size)
        if self._turn is not None:
            if not self._may_wait():
                self.step_back()
            try:
                await self._documents.wait(size, self._turn)
            finally:
                self._turn = None
        self.size = size

    def step_back(self) -> bool:
        """Ends the wait by SteppedBack; whether it was waited."""
        if self._turn is None or self._turn.done():
            return False
        self._turn.set_exception(SteppedBack())
        return True

    @property
    def bytes_max(self) -> int:
        """Of all documents at one time."""
        return self._documents.bytes_max

    async def take_all(self) -> None:
        """For a document whose structure nobody knows yet; once it is known, `keep` what it needs."""
        await self.take(self.bytes_max)

    def keep(self, size: int) -> None:
        """Gives back what is beyond `size`."""
        if size < self.size:
            self._documents.give_back(self.size - size)
            self.size = size


async def _trim_soon() -> None:
    await asyncio.sleep(_TRIM_AFTER_SECONDS)
    if (trim := _malloc_trim()) is not None:
        await asyncio.to_thread(trim, 0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's own: freed memory between what is in use stays with the process without it. None where the C library has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
