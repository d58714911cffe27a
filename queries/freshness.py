"""Strict freshness of cached answers: requests share one read of the log, if it began after they arrived."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from uuid import UUID

import structlog

from ..database.connections import Connection
from ..log.changes import LogHead, read_changes, read_head
from .read_cache import ReadCache

_log = structlog.get_logger("icecore.freshness")

# One short statement that every reader of the process waits for.
CATCH_UP_SECONDS_MAX = 2.0
# An event of these changes what a name stands for, or that it stands for anything; the others change only what the object holds.
_CONTENT_ONLY = frozenset({"table.committed.v1", "table.overwritten.v1", "view.committed.v1", "namespace.properties-changed.v1"})


def content_tag(stream_id: UUID) -> tuple[str, UUID]:
    """Dropped by every event of the stream, so that an answer about its content needs no tag of its name."""
    return ("content", stream_id)


def name_tag(stream_id: UUID) -> tuple[str, UUID]:
    """Dropped when the stream's name, or that it has one, changes."""
    return ("name", stream_id)


def listing_tag(kind: str) -> tuple[str, str]:
    """Dropped when anything of the kind is created, renamed or dropped."""
    return ("listing", kind)


class Freshness:
    """Keeps a cache abreast of the log.

    restored -- called where the log does not have the event that was its head before: the database was set back to an earlier point.
    """

    def __init__(
        self, cache: ReadCache, connection: Callable[[], AbstractAsyncContextManager[Connection]], restored: Callable[[], None]
    ) -> None:
        self._cache = cache
        self._restored = restored
        self._connection = connection
        self._applied: LogHead | None = None
        self._generation = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._reading: asyncio.Task[None] | None = None
        self._behind = False

    @property
    def has_head(self) -> bool:
        """Whether there is a head to read on from; the look at the log that finds one empties the cache."""
        return self._applied is not None

    def follow(self) -> None:
        """Has the log read once more, with nobody waiting: an answer was kept that may be newer than the head compared so far.

        Else a database that is set back to a point between the two would not be noticed by that head.
        """
        self._behind = True
        self._begin()

    async def confirm(self) -> None:
        """When this returns, whatever was in the log when it was called has been taken out of the cache.

        Raises ServiceUnavailable where the log cannot be read.
        """
        # A future for each, and none for all behind a shield, which takes longer than all else here. It has no name in this frame, which
        # an error of it would hold, and so itself.
        self._begin()
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def _begin(self) -> None:
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on(), name="freshness")

    async def _read_on(self) -> None:
        """Reads the log for those who wait, and again for those who came while it read."""
        while self._waiting or self._behind:
            waiting, self._waiting = self._waiting, []
            self._behind = False
            try:
                await self._catch_up()
            except Exception as error:
                # The next answer may be that of a restored log, with a head that says nothing of what was kept since the last one.
                self._cache.clear()
                # Those who came meanwhile hear the same: where the log is away, the next read would only take as long to say so.
                waiting += self._waiting
                self._waiting = []
                _finish(waiting, error)
            else:
                _finish(waiting, None)
        self._reading = None

    async def _catch_up(self) -> None:
        async with self._connection() as connection:
            if self._applied is None:
                self._generation, self._applied = await read_head(connection)
                self._cache.clear()
                return
            changes = await read_changes(connection, self._applied)
        if changes.restored:
            _log.warning("log_restored", position=self._applied.position)
            self._applied = None
            self._cache.clear()
            self._restored()
            return
        if changes.generation != self._generation or not changes.complete:
            self._generation = changes.generation
            self._applied = None if not changes.complete else changes.head
            self._cache.clear()
            return
        for stream_id, topic in changes.streams:
            self._cache.drop(content_tag(stream_id))
            if topic not in _CONTENT_ONLY:
                self._cache.drop(name_tag(stream_id))
                self._cache.drop(listing_tag(topic.partition(".")[0]))
        self._applied = changes.head


def _finish(waiting: list[asyncio.Future[None]], error: Exception | None) -> None:
    """Empties the list: the error's trace holds who has it, and would else be held by it."""
    while waiting:
        confirmed = waiting.pop()
        # Whoever went away meanwhile has cancelled it.
        if confirmed.done():
            continue
        if error is None:
            confirmed.set_result(None)
        else:
            confirmed.set_exception(error)
