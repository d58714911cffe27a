"""Connections to Postgres for reads and appends, handed from one waiting request to the next in the order they came."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from domain.errors import ServiceUnavailable

CONNECT_SECONDS_MAX = 2
# Prepared on first use: every statement here comes again.
_PREPARE_AFTER = 0

Connection = AsyncConnection[TupleRow]


class ConnectionHandOff:
    """At most `connections_max` connections, opened when first needed and handed over first come, first served.

    psycopg_pool is not on this path: it costs a third to a half of a hot read's throughput, and a queue of connections
    is unfair (docs/architecture.md, "Reads"). Raises ServiceUnavailable where Postgres cannot be reached in CONNECT_SECONDS_MAX.
    """

    def __init__(self, dsn: str, connections_max: int, *, application_name: str, options: str = "") -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._options = options
        self._room = connections_max
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit; a broken one is not handed on."""
        connection = await self._take()
        try:
            yield connection
        except asyncio.CancelledError:
            # A statement may still be running on it.
            await connection.close()
            raise
        except psycopg.OperationalError as error:
            await connection.close()
            raise ServiceUnavailable("The log cannot be reached", retry_after_seconds=1) from error
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.popleft().close()

    async def _take(self) -> Connection:
        if self._idle:
            return self._idle.popleft()
        if self._room > 0:
            self._room -= 1
            return await self._open()
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            handed = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._hand_on(turn.result())
            raise
        return handed if handed is not None else await self._open()

    async def _open(self) -> Connection:
        """A new connection in the room already taken for it."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                return await AsyncConnection.connect(
                    self._dsn,
                    autocommit=True,
                    prepare_threshold=_PREPARE_AFTER,
                    application_name=self._application_name,
                    options=self._options,
                )
        except (psycopg.OperationalError, TimeoutError) as error:
            self._hand_on(None)
            raise ServiceUnavailable("The log cannot be reached", retry_after_seconds=1) from error
        except BaseException:
            self._hand_on(None)
            raise

    def _give_back(self, connection: Connection) -> None:
        if connection.closed or connection.broken:
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
