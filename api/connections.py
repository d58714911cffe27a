"""Limits the connections of one server: their number, and the time that a client may make no progress."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

import structlog

from ..storage.descriptor_limit import descriptor_limit

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

CHECK_INTERVAL_SECONDS = 0.5
"""Interval of the check of all connections, which takes about a microsecond for each."""
DRAINING_STALL_SECONDS_MAX = 5.0
"""The time without progress that is permitted during a shutdown. A slower request would not be complete within the grace."""
DESCRIPTORS_SHARE = 0.75
"""The share of the process's file descriptors that is for clients. Postgres, stores and files need the others."""

Awaited = tuple[str, ...] | tuple[str, int] | tuple[str, int, int]
"""What the client should do next (`request`, `head`, `body`, `response`), and its progress."""


class Connection(Protocol):
    """A connection as the limits see it.

    idle_since -- when it was opened or its last response was complete, in the loop's time.
    """

    @property
    def idle_since(self) -> float: ...
    def awaited(self) -> Awaited | None:
        """What the client should do next; None while the server works."""
        ...

    def response_bytes_taken(self) -> int | None:
        """The bytes taken of the current response; None if there is none, or everything that was written is taken."""
        ...

    def cut(self, awaited: str) -> None:
        """Closes the connection because `awaited` made no progress. An unfinished body gets an error response first."""
        ...

    def abort(self) -> None: ...


class Connections:
    """The connections of one server.

    connections_max -- limit on their number; less if the process may open fewer file descriptors.
    stall_seconds_max -- how long a client may make no progress with sending or reading.
    response_rate_min -- bytes per second that a client must read of a response, averaged over stall_seconds_max. Bodies have a deadline
    instead.
    closed_over_limit, stalled -- number of connections closed because there were too many, or because of too little progress.
    """

    def __init__(self, connections_max: int, stall_seconds_max: float, response_rate_min: int) -> None:
        self._connections_max, self._stall_seconds_max, self._response_rate_min = connections_max, stall_seconds_max, response_rate_min
        self._responses: dict[Connection, tuple[int, float]] = {}
        self._progress: dict[Connection, tuple[Awaited | None, float]] = {}
        self._watching: asyncio.Task[None] | None = None
        self.closed_over_limit = self.stalled = 0

    def __len__(self) -> int:
        return len(self._progress)

    def opened(self, connection: Connection) -> None:
        """Adds a new connection. If there are too many, the longest idle one is closed, or the new one."""
        while len(self._progress) >= self._connections_limit():
            longest = self._longest_idle() or connection
            self.closed_over_limit += 1
            self._progress.pop(longest, None)
            longest.abort()
            if longest is connection:
                return
        self._progress[connection] = (None, 0.0)

    def closed(self, connection: Connection) -> None:
        self._progress.pop(connection, None)
        self._responses.pop(connection, None)

    def _connections_limit(self) -> int:
        return descriptor_limit(self._connections_max, DESCRIPTORS_SHARE)

    def _longest_idle(self) -> Connection | None:
        """The connection that has waited for a request for longest. If none waits, the one without progress for longest."""
        idle = [each for each in self._progress if (each.awaited() or ("",))[0] in ("request", "head")]
        if idle:
            return min(idle, key=lambda each: each.idle_since)
        stalled = list(self._stalled(2 * CHECK_INTERVAL_SECONDS))
        return min(stalled, key=lambda each: self._progress[each][1]) if stalled else None

    def _stalled(self, seconds: float) -> Iterator[Connection]:
        """The connections without progress for too long, as of the last check."""
        now = asyncio.get_running_loop().time()
        for connection, (awaited, since) in self._progress.items():
            if awaited is not None and awaited[0] != "request" and now - since >= seconds and connection.awaited() == awaited:
                yield connection

    def _slow(self, seconds: float) -> Iterator[Connection]:
        """The connections whose clients read their responses too slowly."""
        now = asyncio.get_running_loop().time()
        for connection in self._progress:
            taken = connection.response_bytes_taken()
            before, since = self._responses.get(connection, (0, now))
            if taken is None:
                self._responses.pop(connection, None)
            elif connection not in self._responses or taken < before:
                self._responses[connection] = taken, now
            elif now - since >= seconds:
                self._responses[connection] = taken, now
                if taken - before < self._response_rate_min * (now - since):
                    yield connection

    def check(self, stall_seconds_max: float) -> None:
        """Records progress, and closes connections without it. Idle connections are subject to the keep-alive timeout instead."""
        now = asyncio.get_running_loop().time()
        for connection, (before, _) in self._progress.items():
            awaited = connection.awaited()
            if awaited != before:
                self._progress[connection] = (awaited, now)
        for connection in list(self._slow(stall_seconds_max)):
            self.stalled += 1
            _log.info("connection_slow", response_rate_min=self._response_rate_min)
            connection.abort()
        for connection in list(self._stalled(stall_seconds_max)):
            awaited, _ = self._progress[connection]
            assert awaited is not None
            self.stalled += 1
            _log.info("connection_stalled", awaited=awaited[0])
            self._progress[connection] = (None, now)
            connection.cut(awaited[0])

    def start(self) -> None:
        """Starts the checks, which run until `close`."""
        self._watching = asyncio.create_task(self._watch(), name="connections")

    def drain(self) -> None:
        """Reduces the clients' time, because the server is stopping."""
        self._stall_seconds_max = min(self._stall_seconds_max, DRAINING_STALL_SECONDS_MAX)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(CHECK_INTERVAL_SECONDS, self._stall_seconds_max / 4))
            try:
                self.check(self._stall_seconds_max)
            except Exception:
                # A bug in one connection must not end the limits for all.
                _log.exception("connections_watch_failed")
