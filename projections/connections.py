"""Connections to Postgres for reads and appends, handed from one waiting request to the next in the order they came."""

import asyncio
import os
import select
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog
from psycopg.pq import TransactionStatus

from domain.errors import ServiceUnavailable
from migrations.connection import connect
from projections.postgres import Connection

__all__ = ["Connection", "ConnectionHandOff", "HandOffFigures", "SilenceWatch", "has_ended", "sever"]

_log = structlog.get_logger("icecore.connections")

CONNECT_SECONDS_MAX = 2
# An answer that takes longer makes us ask whether Postgres answers anybody; if not within the second time, it is away.
SILENCE_SECONDS_MAX = 0.75
PROBE_SECONDS_MAX = 1.0
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


def sever(connection: Connection) -> None:
    """Cuts the line, so that whoever waits on it hears an OperationalError now."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class SilenceWatch:
    """Cuts the connections in use when Postgres has stopped answering: hung or unreachable, it sends no error by itself.

    A statement that merely takes long is left alone, up to its limit, while Postgres lets somebody else connect.

    silent -- called each time the connections were cut because nobody could connect.
    """

    def __init__(self, dsn: str, silent: Callable[[], None] = lambda: None) -> None:
        self._dsn = dsn
        self._silent = silent
        self._uses: dict[Connection, tuple[float, float]] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(self, connection: Connection, seconds_max: float) -> None:
        """The connection is in use from now on, and for no longer than `seconds_max` if a statement is running then."""
        self._uses[connection] = (asyncio.get_running_loop().time(), seconds_max)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="silence-watch")

    def end(self, connection: Connection) -> None:
        self._uses.pop(connection, None)

    def close(self) -> None:
        """Nothing is in use any more: whoever looked after it need not wait for the end of its pause."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._uses:
                due = min(began for began, _ in self._uses.values()) + SILENCE_SECONDS_MAX
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                    continue
                asked = loop.time()
                if await self._answers():
                    self._cut_overdue(loop.time())
                else:
                    _log.warning("log_silent", connections=len(self._uses))
                    self._cut_older_than(asked)
                    self._silent()
                await asyncio.sleep(SILENCE_SECONDS_MAX)
        finally:
            self._looking = None

    async def _answers(self) -> bool:
        """Whether Postgres says anything to a newcomer; also when it only says that there is no room."""
        try:
            async with asyncio.timeout(PROBE_SECONDS_MAX):
                connection = await connect(self._dsn, application_name="icecore-probe")
        except TimeoutError:
            return False
        except psycopg.OperationalError:
            # It refuses by itself: then it also ends the connections it has, or serves them.
            return True
        await connection.close()
        return True

    def _cut_older_than(self, asked: float) -> None:
        for connection, (began, _) in [*self._uses.items()]:
            if began <= asked:
                sever(connection)

    def _cut_overdue(self, now: float) -> None:
        """What is in use but idle is left alone: it waits for its owner, not for Postgres."""
        for connection, (began, seconds_max) in [*self._uses.items()]:
            if began + seconds_max <= now and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                _log.warning("statement_cut", seconds=now - began)
                sever(connection)


@dataclass(slots=True)
class HandOffFigures:
    """Counts for the metrics: requests that waited for a connection, and how long all together."""

    waits: int = 0
    wait_seconds: float = 0.0


class ConnectionHandOff:
    """At most `connections_max` connections, opened when first needed and handed over first come, first served.

    psycopg_pool is not on this path: it costs a third to a half of a hot read's throughput, and a queue of connections
    is unfair (docs/architecture.md, "Reads"). Raises ServiceUnavailable where Postgres cannot be reached in CONNECT_SECONDS_MAX.
    """

    def __init__(self, dsn: str, connections_max: int, *, application_name: str, options: str = "") -> None:
        self._dsn = dsn
        self._application_name = application_name
        self._options = options
        self.figures = HandOffFigures()
        self._connections_max = connections_max
        self._room = connections_max
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._watch = SilenceWatch(dsn, self._refuse_waiting)
        self.on_broken: Callable[[], None] = lambda: None
        """Called whenever a connection has ended or broken: what answers next may be another Postgres."""

    @asynccontextmanager
    async def connection(self, seconds_max: float = STATEMENT_SECONDS_MAX) -> AsyncIterator[Connection]:
        """A connection in autocommit; a broken one is not handed on. A statement still running after `seconds_max` is cut."""
        connection = await self._take()
        self._watch.begin(connection, seconds_max)
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
        self.figures.waits += 1
        try:
            handed = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._hand_on(turn.result())
            raise
        finally:
            self.figures.wait_seconds += time.monotonic() - came
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
