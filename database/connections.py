"""Pools connections to Postgres and hands them to waiting requests in the order of arrival."""

import asyncio
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from ..domain.errors import ServiceUnavailable
from .connection import connect
from .connection_watchdog import ConnectionWatchdog, StatementUse, sever
from .postgres import Connection

__all__ = ["Connection", "ConnectionPool", "ConnectionPoolMetrics", "has_ended"]

CONNECT_SECONDS_MAX = 2
# However alive Postgres is, nobody waits longer than this for one statement: a line may be dead on which no error ever comes.
STATEMENT_SECONDS_MAX = 10.0
# The kernel's own measures against a host that is gone: unanswered bytes, and lines on which nothing comes.
NETWORK_OPTIONS: dict[str, Any] = {"tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 2}
# Prepared on first use: every statement here comes again.
_PREPARE_AFTER = 0


def has_ended(connection: Connection) -> bool:
    """Whether Postgres has closed its end of an idle connection: then there is something to read where nothing should be."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@dataclass(slots=True)
class ConnectionPoolMetrics:
    """Counts for the metrics: requests that waited for a connection, and how long all together."""

    waits: int = 0
    wait_seconds: float = 0.0


class ConnectionPool:
    """At most `connections_max` connections, opened when first needed and handed over first come, first served.

    psycopg_pool is not on this path: it costs a third to a half of a hot read's throughput, and a queue of connections
    is unfair. Raises ServiceUnavailable where Postgres cannot be reached in CONNECT_SECONDS_MAX.
    """

    def __init__(self, dsn: str, connections_max: int, *, application_name: str, options: str = "") -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._options = options
        self.metrics = ConnectionPoolMetrics()
        self._connections_max = connections_max
        self._room = connections_max
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._retired: set[Connection] = set()
        self._watch = ConnectionWatchdog(dsn, self._refuse_waiting, self._drop_idle)
        self.on_broken: Callable[[], None] = lambda: None
        """Called whenever a connection has ended or broken: what answers next may be another Postgres."""

    @asynccontextmanager
    async def connection(self, seconds_max: float = STATEMENT_SECONDS_MAX) -> AsyncIterator[Connection]:
        """A connection in autocommit; a broken one is not handed on. A statement still running after `seconds_max` is cut."""
        connection = await self._take()
        self._watch.begin(connection, StatementUse(seconds_max))
        try:
            yield connection
        except asyncio.CancelledError:
            # A statement may still be running on it.
            await connection.close()
            raise
        except psycopg.errors.ReadOnlySqlTransaction as error:
            # The next connection may come to the server that took over.
            await connection.close()
            raise ServiceUnavailable("The log takes no writes: Postgres is read-only", retry_after_seconds=1) from error
        except psycopg.OperationalError as error:
            await connection.close()
            raise _away() from error
        finally:
            self._watch.end(connection)
            self._give_back(connection)

    @asynccontextmanager
    async def connection_once(self, seconds_max: float = STATEMENT_SECONDS_MAX) -> AsyncIterator[Connection]:
        """The same for a large answer: the connection is closed behind it, because libpq keeps its buffer at the largest row's size."""
        async with self.connection(seconds_max) as connection:
            try:
                yield connection
            finally:
                if not (connection.closed or connection.broken):
                    self._retired.add(connection)
                    await connection.close()

    @property
    def in_use(self) -> int:
        """Connections that somebody holds."""
        return self._connections_max - self._room - len(self._idle)

    async def close(self) -> None:
        while self._idle:
            await self._idle.popleft().close()
        self._watch.close()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.popleft()
            if not has_ended(connection):
                return connection
            self._room += 1
            self.on_broken()
            await connection.close()
        if self._room > 0:
            self._room -= 1
            return await self._open()
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        came = time.monotonic()
        self.metrics.waits += 1
        try:
            handed = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_on(turn.result())
            raise
        finally:
            self.metrics.wait_seconds += time.monotonic() - came
        return handed if handed is not None else await self._open()

    async def _open(self) -> Connection:
        """A new connection in the room already taken for it."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await connect(
                    self._dsn,
                    prepare_threshold=_PREPARE_AFTER,
                    application_name=self._application_name,
                    options=self._options,
                    **NETWORK_OPTIONS,
                )
        except TimeoutError as error:
            # First: whoever was handed the room would wait as long again to hear the same.
            self._refuse_waiting()
            self._hand_on(None)
            raise _away() from error
        except psycopg.OperationalError as error:
            self._hand_on(None)
            raise _away() from error
        except BaseException:
            self._hand_on(None)
            raise

    def _drop_idle(self) -> None:
        """Sessions of ours are frozen: those that nobody uses may be too, and the next request would have to find out."""
        for connection in self._idle:
            sever(connection)

    def _refuse_waiting(self) -> None:
        """Postgres is away: those in the queue hear it now."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(_away())

    def _give_back(self, connection: Connection) -> None:
        if connection in self._retired:
            self._retired.remove(connection)
            self._hand_on(None)
        elif connection.closed or connection.broken:
            self.on_broken()
            self._hand_on(None)
        else:
            self._hand_on(connection)

    def _hand_on(self, connection: Connection | None) -> None:
        """To the request that waits longest; None hands on the room to open one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._room += 1
        else:
            self._idle.append(connection)


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("The log cannot be reached", retry_after_seconds=1)
