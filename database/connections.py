"""Pools connections to Postgres and hands them to waiting requests in the order of arrival."""

import asyncio
import select
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import psycopg

from ..domain.errors import ServiceUnavailable
from .connection import connect
from .connection_watchdog import ConnectionUse, ConnectionWatchdog, sever
from .host_lists import host_count
from .postgres import Connection

__all__ = ["Connection", "ConnectionPool", "ConnectionPoolMetrics", "OpenConnection", "has_ended"]

OpenConnection = Callable[[], AbstractAsyncContextManager[Connection]]
"""Opens a connection for the length of a block, as `ConnectionPool.connection` does."""

CONNECT_SECONDS_MAX = 2
"""Limit on opening a connection, for each host in the URL."""
# The limit on all statements of one use of a connection, even if Postgres responds to others: a dead network connection may never report
# an error.
USE_SECONDS_MAX = 10.0
# Statements are prepared on first use, because all of them are repeated.
_PREPARE_AFTER = 0


def has_ended(connection: Connection) -> bool:
    """Whether Postgres has closed an idle connection: then its socket is readable."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@dataclass(slots=True)
class ConnectionPoolMetrics:
    """Counters for the metrics: requests that waited for a connection, and their total waiting time."""

    waits: int = 0
    wait_seconds: float = 0.0


class ConnectionPool:
    """At most `connections_max` connections, opened on demand, and given to requests first come, first served.

    psycopg_pool is not used: it costs a third to a half of the throughput of cached reads, and its queue is unfair.

    transaction_pooled -- `dsn` points to PgBouncer in transaction mode.

    Raises ServiceUnavailable if Postgres cannot be reached within CONNECT_SECONDS_MAX for each host of `dsn`.
    """

    def __init__(
        self, dsn: str, connections_max: int, *, application_name: str, options: str = "", transaction_pooled: bool = False
    ) -> None:
        self._dsn = dsn
        self._transaction_pooled = transaction_pooled
        self._application_name = application_name
        self._options = options
        self.metrics = ConnectionPoolMetrics()
        self._connections_max = connections_max
        self._unopened = connections_max
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._retired: set[Connection] = set()
        self._closed = False
        self._watchdog = ConnectionWatchdog(dsn, self._refuse_waiting, self._drop_idle, transaction_pooled=transaction_pooled)
        self.on_broken: Callable[[], None] = lambda: None
        """Called when a connection has ended or broken: the next one may reach another Postgres."""

    @asynccontextmanager
    async def connection(self, seconds_max: float = USE_SECONDS_MAX) -> AsyncIterator[Connection]:
        """A connection in autocommit mode. A broken one is not reused. A statement that still runs `seconds_max` after the
        connection was taken is cut off.
        """
        connection = await self._take()
        self._watchdog.begin(connection, ConnectionUse(seconds_max))
        try:
            yield connection
        except asyncio.CancelledError:
            # A statement may still be running on it.
            await connection.close()
            raise
        except psycopg.errors.ReadOnlySqlTransaction as error:
            # The next connection may reach the new primary.
            await connection.close()
            raise ServiceUnavailable("Postgres accepts no writes: it is read-only", retry_after_seconds=1) from error
        except psycopg.OperationalError as error:
            await connection.close()
            raise _unreachable() from error
        finally:
            self._watchdog.end(connection)
            if self._closed:
                self._retired.add(connection)
                await connection.close()
            self._release(connection)

    @asynccontextmanager
    async def single_use_connection(self, seconds_max: float = USE_SECONDS_MAX) -> AsyncIterator[Connection]:
        """As `connection`, for a large result. The connection is closed afterwards: libpq's buffer keeps the size of the largest row."""
        async with self.connection(seconds_max) as connection:
            try:
                yield connection
            finally:
                if not (connection.closed or connection.broken):
                    self._retired.add(connection)
                    await connection.close()

    @property
    def in_use(self) -> int:
        """Number of connections in use."""
        return self._connections_max - self._unopened - len(self._idle)

    async def close(self) -> None:
        """Closes idle connections at once, and those in use when they are given back."""
        self._closed = True
        while self._idle:
            await self._idle.popleft().close()
        self._watchdog.close()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.popleft()
            if not has_ended(connection):
                return connection
            self._unopened += 1
            self.on_broken()
            await connection.close()
        if self._unopened > 0:
            self._unopened -= 1
            return await self._open()
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        began = time.monotonic()
        self.metrics.waits += 1
        try:
            assigned = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._serve_next(waiter.result())
            raise
        finally:
            self.metrics.wait_seconds += time.monotonic() - began
        return assigned if assigned is not None else await self._open()

    async def _open(self) -> Connection:
        """Opens a connection, which is counted already."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX * host_count(self._dsn)):
                return await connect(
                    self._dsn,
                    connect_timeout=CONNECT_SECONDS_MAX,
                    prepare_threshold=_PREPARE_AFTER,
                    application_name=self._application_name,
                    options=self._options,
                    transaction_pooled=self._transaction_pooled,
                )
        except TimeoutError as error:
            # First: the next request would wait just as long for the same error.
            self._refuse_waiting()
            self._serve_next(None)
            raise _unreachable() from error
        except psycopg.OperationalError as error:
            self._serve_next(None)
            raise _unreachable() from error
        except BaseException:
            self._serve_next(None)
            raise

    def _drop_idle(self) -> None:
        """Closes idle connections after a session of the pool hung. They may hang too, and the next request would have to wait."""
        for connection in self._idle:
            sever(connection)

    def _refuse_waiting(self) -> None:
        """Refuses all waiting requests at once, because Postgres is unreachable."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(_unreachable())

    def _release(self, connection: Connection) -> None:
        if connection in self._retired:
            self._retired.remove(connection)
            self._serve_next(None)
        elif connection.closed or connection.broken:
            self.on_broken()
            self._serve_next(None)
        else:
            self._serve_next(connection)

    def _serve_next(self, connection: Connection | None) -> None:
        """Gives the connection to the request that has waited longest; None permits it to open a new one."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            self._unopened += 1
        else:
            self._idle.append(connection)


def _unreachable() -> ServiceUnavailable:
    return ServiceUnavailable("Postgres cannot be reached", retry_after_seconds=1)
