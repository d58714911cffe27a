"""Strict freshness of cached responses: requests share one read of the log, if it began after they arrived."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from uuid import UUID

import structlog

from ..database.connections import Connection
from ..log.changes import LogHead, read_changes, read_head
from .read_cache import ReadCache

_log = structlog.get_logger("icecore.cache_invalidator")

# A limit on one short statement that all readers of the process wait for.
CATCH_UP_SECONDS_MAX = 2.0
# Topics whose events change only the content of an object. Events of all others change to which object a name refers.
_NAMES_UNCHANGED = frozenset(
    {
        "table.committed.v1", "table.overwritten.v1", "view.committed.v1", "namespace.properties-changed.v1", "warehouse.config-changed.v1",
        "warehouse.activated.v1", "warehouse.deactivated.v1", "warehouse.protection-changed.v1",
        "warehouse.format-version-policy-changed.v1", "warehouse.storage-profile-changed.v1", "warehouse.storage-credential-changed.v1",
        "table.purged.v1", "proposal.opened.v1", "proposal.approved.v1", "proposal.rejected.v1", "proposal.expired.v1", "proposal.stale.v1",
        "namespace.protection-changed.v1", "table.protection-changed.v1", "view.protection-changed.v1",
        "warehouse.read-only-changed.v1",
        "warehouse.delete-profile-changed.v1", "warehouse.purge-default-changed.v1", "table.expired.v1", "view.expired.v1",
        "namespace.expired.v1",
        "warehouse.task-queue-config-changed.v1", "table.purge-cancelled.v1", "task.scheduled.v1", "task.stopped.v1",
        "task.deletion-begun.v1", "task.attempt-failed.v1", "maintenance.planned.v1", "maintenance.finished.v1",
    }
)  # fmt: skip
_NAMESPACE_MOVED = "warehouse.namespace-moved.v1"
_PROTECTION_CHANGED = "protection-changed.v1"


def stream_tag(stream_id: UUID) -> tuple[str, UUID]:
    """Invalidated by every event of the stream, so that a result that depends on its content needs no tag of its name."""
    return ("stream", stream_id)


def name_tag(stream_id: UUID) -> tuple[str, UUID]:
    """Invalidated when the object is created, renamed or dropped."""
    return ("name", stream_id)


def listing_tag(kind: str) -> tuple[str, str]:
    """Invalidated when an object of the kind is created, renamed or dropped."""
    return ("listing", kind)


def paths_tag(warehouse_id: UUID) -> tuple[str, UUID]:
    """Invalidated when a namespace of the warehouse is moved. Every result that was found by a path below the warehouse has it."""
    return ("paths", warehouse_id)


def protection_tag(kind: str) -> tuple[str, str]:
    """Invalidated when the protection of an object of the kind changes."""
    return ("protection", kind)


class CacheInvalidator:
    """Invalidates a cache by the events of the log.

    restored -- called if the log lacks the event that was its head before, because the database was restored to an earlier point.
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
        self._read_again = False

    @property
    def has_head(self) -> bool:
        """Whether a head of the log is known from which to read on. The first read of the log sets it and empties the cache."""
        return self._applied is not None

    def refresh_in_background(self) -> None:
        """Reads the log once more in the background, because a result was cached that may be newer than the known head.

        Otherwise a restore of the database to a point between the two would not be noticed.
        """
        self._read_again = True
        self._begin()

    async def confirm(self) -> None:
        """Returns once the cache is invalidated by every event that was in the log at the time of the call.

        Raises ServiceUnavailable if the log cannot be read.
        """
        # One future for each request: a shared one would need asyncio.shield, which takes longer than the rest. It is not a local
        # variable, because its error would refer to this frame: a reference cycle.
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
            self._reading = asyncio.create_task(self._read_on(), name="cache-invalidator")

    async def _read_on(self) -> None:
        """Reads the log for the waiting requests, and again for those that arrived during the read."""
        while self._waiting or self._read_again:
            waiting, self._waiting = self._waiting, []
            self._read_again = False
            try:
                await self._catch_up()
            except Exception as error:
                # The database may be restored before the next read, which the known head would not reveal for results cached since.
                self._cache.clear()
                # Requests that arrived meanwhile get the same error: a second read would take just as long to fail.
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
        for stream_id, topic in changes.events:
            self._cache.invalidate(stream_tag(stream_id))
            kind, _, change = topic.partition(".")
            if topic not in _NAMES_UNCHANGED:
                self._cache.invalidate(name_tag(stream_id))
                self._cache.invalidate(listing_tag(kind))
                if topic == _NAMESPACE_MOVED:
                    self._cache.invalidate(paths_tag(stream_id))
            elif change == _PROTECTION_CHANGED:
                self._cache.invalidate(protection_tag(kind))
        self._applied = changes.head


def _finish(waiting: list[asyncio.Future[None]], error: Exception | None) -> None:
    """Completes the futures and empties the list, which would otherwise form a reference cycle with the error's traceback."""
    while waiting:
        confirmed = waiting.pop()
        # Cancelled, because its request ended meanwhile.
        if confirmed.done():
            continue
        if error is None:
            confirmed.set_result(None)
        else:
            confirmed.set_exception(error)
