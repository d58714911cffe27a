"""Connections to Postgres for reads and appends, handed from one waiting request to the next in the order they came."""

import asyncio
import os
import select
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from domain.errors import ServiceUnavailable

_log = structlog.get_logger("icecore.connections")

CONNECT_SECONDS_MAX = 2
# An answer that takes longer makes us ask whether Postgres answers anybody; if not within the second time, it is away.
SILENCE_SECONDS_MAX = 0.75
PROBE_SECONDS_MAX = 1.0
# However alive Postgres is, nobody waits longer than this for one statement.
STATEMENT_SECONDS_MAX = 30.0
# Prepared on first use: every statement here comes again.
_PREPARE_AFTER = 0

Connection = AsyncConnection[TupleRow]


def has_ended(connection: Connection) -> bool:
    """Whether Postgres has closed its end of an idle connection: then there is something to read where nothing should be."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def sever(connection: Connection) -> None:
    """Cuts the line, so that whoever waits on it hears an OperationalError now."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class SilenceWatch:
    """Cuts the connections in use when Postgres has stopped answering: hung or unreachable, it sends no error by itself.

    A statement that merely takes long is left alone (up to STATEMENT_SECONDS_MAX) while Postgres lets somebody else connect.

    silent -- called each time the connections were cut because nobody could connect.
    """

    def __init__(self, dsn: str, silent: Callable[[], None] = lambda: None) -> None:
        self._dsn = dsn
        self._silent = silent
        self._since: dict[Connection, float] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(self, connection: Connection) -> None:
        """The connection is in use from now on."""
        self._since[connection] = asyncio.get_running_loop().time()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="silence-watch")

    def end(self, connection: Connection) -> None:
        self._since.pop(connection, None)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._since:
                now = loop.time()
                due = min(self._since.values()) + SILENCE_SECONDS_MAX
                if due > now:
                    await asyncio.sleep(due - now)
                elif await self._answers():
                    self._cut(loop.time() - STATEMENT_SECONDS_MAX, active_only=True)
                    await asyncio.sleep(SILENCE_SECONDS_MAX)
                else:
                    _log.warning("log_silent", connections_cut=len(self._since))
                    self._cut(now, active_only=False)
                    self._silent()
                    await asyncio.sleep(SILENCE_SECONDS_MAX)
        finally:
            self._looking = None

    async def _answers(self) -> bool:
        """Whether Postgres says anything to a newcomer; also when it only says that there is no room."""
        try:
            async with asyncio.timeout(PROBE_SECONDS_MAX):
                connection = await AsyncConnection.connect(self._dsn, application_name="icecore-probe")
        except TimeoutError:
            return False
        except psycopg.OperationalError:
            # It refuses by itself: then it also ends the connections it has, or serves them.
            return True
        await connection.close()
        return True

    def _cut(self, since: float, *, active_only: bool) -> None:
        for connection, began in [*self._since.items()]:
            if began <= since and (not active_only or connection.pgconn.transaction_status == TransactionStatus.ACTIVE):
                sever(connection)


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
        self._watch = SilenceWatch(dsn, self._refuse_waiting)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit; a broken one is not handed on."""
        connection = await self._take()
        self._watch.begin(connection)
        try:
            yield connection
        except asyncio.CancelledError:
            # A statement may still be running on it.
            await connection.close()
            raise
        except psycopg.OperationalError as error:
            await connection.close()
            raise _away() from error
        finally:
            self._watch.end(connection)
            self._give_back(connection)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.popleft().close()

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.popleft()
            if not has_ended(connection):
                return connection
            self._room += 1
            await connection.close()
        if self._room > 0:
            self._room -= 1
            return await self._open()
        turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            handed = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
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
        except TimeoutError as error:
            self._hand_on(None)
            # Nobody needs to wait as long to hear the same.
            self._refuse_waiting()
            raise _away() from error
        except psycopg.OperationalError as error:
            self._hand_on(None)
            raise _away() from error
        except BaseException:
            self._hand_on(None)
            raise

    def _refuse_waiting(self) -> None:
        """Postgres is away: those in the queue hear it now."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(_away())

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


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("The log cannot be reached", retry_after_seconds=1)
