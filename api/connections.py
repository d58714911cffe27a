"""Limits the connections of one server: their number, and the time that a client may make no progress."""

import asyncio
import resource
from collections.abc import Iterator
from typing import Protocol

import structlog

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

LOOK_SECONDS = 0.5
"""Between two looks at all connections; each takes about a microsecond."""
DRAINING_STALL_SECONDS_MAX = 5.0
"""While the server ends: what makes no progress for this long would not be complete within the grace."""
DESCRIPTORS_SHARE = 0.75
"""Of the descriptors a process may open, how many are for clients; Postgres, stores and files need the others."""

Awaited = tuple[str, ...] | tuple[str, int] | tuple[str, int, int]
"""What a client should do next (`request`, `head`, `body`, `answer`), and how far it has come."""


class Connection(Protocol):
    """One connection, as these bounds see it.

    idle_since -- when it was opened or its last answer was complete, in the loop's time.
    """

    @property
    def idle_since(self) -> float: ...
    def awaited(self) -> Awaited | None:
        """What the client should do next; None while the server works."""
        ...

    def answer_bytes_taken(self) -> int | None:
        """Of the answer that is being sent; None where there is none, or all of it that was made is sent."""
        ...

    def cut(self, awaited: str) -> None:
        """Ends it because `awaited` made no progress: an unfinished body is answered first."""
        ...

    def abort(self) -> None: ...


class Connections:
    """Those of one server.

    connections_max -- how many, at most; fewer where the process may open fewer descriptors.
    stall_seconds_max -- how long what a client sends or takes may make no progress.
    answer_rate_min -- bytes a second that a client takes of an answer, on the average of stall_seconds_max; bodies have a deadline.
    closed_for_room, stalled -- how many were closed because there were too many, and because they made no progress, or too little.
    """

    def __init__(self, connections_max: int, stall_seconds_max: float, answer_rate_min: int) -> None:
        self._connections_max, self._stall_seconds_max, self._answer_rate_min = connections_max, stall_seconds_max, answer_rate_min
        self._answers: dict[Connection, tuple[int, float]] = {}
        self._progress: dict[Connection, tuple[Awaited | None, float]] = {}
        self._watching: asyncio.Task[None] | None = None
        self.closed_for_room = self.stalled = 0

    def __len__(self) -> int:
        return len(self._progress)

    def opened(self, connection: Connection) -> None:
        """Takes a new connection in; if there are too many, the one that has been idle for longest is closed, or the new one."""
        while len(self._progress) >= self._room():
            longest = self._longest_idle() or connection
            self.closed_for_room += 1
            self._progress.pop(longest, None)
            longest.abort()
            if longest is connection:
                return
        self._progress[connection] = (None, 0.0)

    def closed(self, connection: Connection) -> None:
        self._progress.pop(connection, None)
        self._answers.pop(connection, None)

    def _room(self) -> int:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return self._connections_max
        return max(1, min(self._connections_max, int(descriptors * DESCRIPTORS_SHARE)))

    def _longest_idle(self) -> Connection | None:
        """The one that has waited for a request for longest; if none waits, the one that has made no progress for longest."""
        idle = [each for each in self._progress if (each.awaited() or ("",))[0] in ("request", "head")]
        if idle:
            return min(idle, key=lambda each: each.idle_since)
        stalled = list(self._stalled(2 * LOOK_SECONDS))
        return min(stalled, key=lambda each: self._progress[each][1]) if stalled else None

    def _stalled(self, seconds: float) -> Iterator[Connection]:
        """Those whose clients have made no progress for so long, as far as the last look saw."""
        now = asyncio.get_running_loop().time()
        for connection, (awaited, since) in self._progress.items():
            if awaited is not None and awaited[0] != "request" and now - since >= seconds and connection.awaited() == awaited:
                yield connection

    def _slow(self, seconds: float) -> Iterator[Connection]:
        """Those whose clients took less of their answers for so long than they should, some bytes though it may have been."""
        now = asyncio.get_running_loop().time()
        for connection in self._progress:
            taken = connection.answer_bytes_taken()
            before, since = self._answers.get(connection, (0, now))
            if taken is None:
                self._answers.pop(connection, None)
            elif connection not in self._answers or taken < before:
                self._answers[connection] = taken, now
            elif now - since >= seconds:
                self._answers[connection] = taken, now
                if taken - before < self._answer_rate_min * (now - since):
                    yield connection

    def look(self, stall_seconds_max: float) -> None:
        """Notes what made progress, and cuts what made none. Idle connections are the keep-alive timeout's."""
        now = asyncio.get_running_loop().time()
        for connection, (before, _) in self._progress.items():
            awaited = connection.awaited()
            if awaited != before:
                self._progress[connection] = (awaited, now)
        for connection in list(self._slow(stall_seconds_max)):
            self.stalled += 1
            _log.info("connection_slow", answer_rate_min=self._answer_rate_min)
            connection.abort()
        for connection in list(self._stalled(stall_seconds_max)):
            awaited, _ = self._progress[connection]
            assert awaited is not None
            self.stalled += 1
            _log.info("connection_stalled", awaited=awaited[0])
            self._progress[connection] = (None, now)
            connection.cut(awaited[0])

    def start(self) -> None:
        """Begins to look, until `close`."""
        self._watching = asyncio.create_task(self._watch(), name="connections")

    def drain(self) -> None:
        """The server ends: clients have less time."""
        self._stall_seconds_max = min(self._stall_seconds_max, DRAINING_STALL_SECONDS_MAX)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._stall_seconds_max / 4))
            try:
                self.look(self._stall_seconds_max)
            except Exception:
                # A fault of ours at one connection must not end the limits for all.
                _log.exception("connections_watch_failed")
