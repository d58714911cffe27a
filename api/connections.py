"""Limits the connections of one server: their number, and the time that a client may make no progress."""

import asyncio
from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

import structlog

from ..storage.descriptor_limit import descriptor_limit
from .request_metrics import ConnectionMetrics

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

CHECK_INTERVAL_SECONDS = 0.5
"""Seconds between two checks of all connections. A check takes about a microsecond per connection, and 6 more if a response waits."""
DRAINING_STALL_SECONDS_MAX = 5.0
"""The time without progress that is permitted during a shutdown. A slower request would not finish within the grace period."""
REQUEST_RATE_MIN = 4 * 1024
"""Bytes per second at which clients send heads and bodies. A slower client loses its connection if there are too many connections."""
BEHIND_SECONDS_MAX = 5.0
"""How far a client may be behind REQUEST_RATE_MIN before its connection is closed instead of an idle one, if there are too many."""
OVER_LIMIT_SECONDS = 60.0
"""How long no connection may have been closed for exceeding the limit before a log record says that this is over."""
DESCRIPTORS_SHARE = 0.75
"""The share of the process's file descriptors that is for clients. Postgres, stores and files need the others."""

ExpectedFromClient = tuple[str, ...] | tuple[str, int] | tuple[str, int, int]
"""What the client should do next (`request`, `head`, `body`, `response`), and its progress."""


class ClientConnection(Protocol):
    """A connection as the limits see it.

    idle_since -- when it was opened or its last response was complete, in the loop's time.
    """

    @property
    def idle_since(self) -> float: ...
    def expected_from_client(self) -> ExpectedFromClient | None:
        """What the client should do next; None while the server works."""
        ...

    def seconds_behind(self, rate: int) -> float:
        """How much later the head or body is than at `rate` bytes per second; at most 0 if none is expected, or the client is faster."""
        ...

    def response_bytes_taken(self) -> int | None:
        """The bytes taken of the current response; None if there is none, or everything that was written is taken."""
        ...

    def close_stalled(self, expected: str) -> None:
        """Closes the connection because `expected` made no progress. An unfinished body gets an error response first."""
        ...

    def abort(self) -> None: ...


class ClientConnections:
    """The connections of one server.

    connections_max -- limit on their number; less if the process may open fewer file descriptors.
    stall_seconds_max -- how long a client may make no progress with sending or reading.
    response_rate_min -- bytes per second that a client must read of a response, averaged over stall_seconds_max. Bodies have a deadline
    instead.
    metrics -- counts the connections that were closed.
    """

    def __init__(
        self, connections_max: int, stall_seconds_max: float, response_rate_min: int, metrics: ConnectionMetrics | None = None
    ) -> None:
        self._connections_max, self._stall_seconds_max, self._response_rate_min = connections_max, stall_seconds_max, response_rate_min
        self._responses: dict[ClientConnection, tuple[int, float]] = {}
        self._progress: dict[ClientConnection, tuple[ExpectedFromClient | None, float]] = {}
        self._watching: asyncio.Task[None] | None = None
        self.metrics = ConnectionMetrics() if metrics is None else metrics
        self._over_limit_at: float | None = None
        self._over_limit_closed = 0

    def __len__(self) -> int:
        return len(self._progress)

    def opened(self, connection: ClientConnection) -> None:
        """Adds a new connection. If there are too many, closes the one that `_dispensable` returns, or else the new one."""
        while len(self._progress) >= (limit := self._connections_limit()):
            dispensable = self._dispensable() or connection
            self._note_over_limit(limit)
            self._progress.pop(dispensable, None)
            dispensable.abort()
            if dispensable is connection:
                return
        self._progress[connection] = (None, 0.0)

    def closed(self, connection: ClientConnection) -> None:
        self._progress.pop(connection, None)
        self._responses.pop(connection, None)

    def _connections_limit(self) -> int:
        return descriptor_limit(self._connections_max, DESCRIPTORS_SHARE)

    def _note_over_limit(self, limit: int) -> None:
        """Counts a connection that is closed because there are too many. The first one is logged."""
        if self._over_limit_at is None:
            _log.warning("connections_over_limit", connections_max=limit)
        self._over_limit_at = asyncio.get_running_loop().time()
        self._over_limit_closed += 1
        self.metrics.closed_over_limit += 1

    def _dispensable(self) -> ClientConnection | None:
        """The connection whose client sends its request far too slowly; else the one that has been waiting longest for a request; else
        the one that has made no progress for longest; else one whose client sends too slowly."""
        behind, slowest = max(((each.seconds_behind(REQUEST_RATE_MIN), each) for each in self._progress), key=itemgetter(0))
        if behind >= BEHIND_SECONDS_MAX:
            return slowest
        idle = [each for each in self._progress if (each.expected_from_client() or ("",))[0] in ("request", "head")]
        if idle:
            return min(idle, key=lambda each: each.idle_since)
        stalled = list(self._stalled(2 * CHECK_INTERVAL_SECONDS))
        if stalled:
            return min(stalled, key=lambda each: self._progress[each][1])
        return slowest if behind > 0 else None

    def _stalled(self, seconds: float) -> Iterator[ClientConnection]:
        """The connections without progress for too long, as of the last check."""
        now = asyncio.get_running_loop().time()
        for connection, (expected, since) in self._progress.items():
            if (
                expected is not None
                and expected[0] != "request"
                and now - since >= seconds
                and connection.expected_from_client() == expected
            ):
                yield connection

    def _slow(self, seconds: float) -> Iterator[ClientConnection]:
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
            expected = connection.expected_from_client()
            if expected != before:
                self._progress[connection] = (expected, now)
        if self._over_limit_at is not None and now - self._over_limit_at >= OVER_LIMIT_SECONDS:
            _log.info("connections_below_limit", closed=self._over_limit_closed)
            self._over_limit_at, self._over_limit_closed = None, 0
        for connection in list(self._slow(stall_seconds_max)):
            self.metrics.stalled += 1
            _log.info("connection_slow", response_rate_min=self._response_rate_min)
            connection.abort()
        for connection in list(self._stalled(stall_seconds_max)):
            expected, _ = self._progress[connection]
            assert expected is not None
            self.metrics.stalled += 1
            _log.info("connection_stalled", awaited=expected[0])
            self._progress[connection] = (None, now)
            connection.close_stalled(expected[0])

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
