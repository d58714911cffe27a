"""Watches connections in use, and closes those on which Postgres or one of its processes has stopped answering."""

import asyncio
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
import structlog
from psycopg.pq import TransactionStatus

from .advisory_locks import AdvisoryLock
from .connection import connect
from .named_sql import named_sql
from .outage_log import OutageLog
from .postgres import Connection

_SQL = named_sql("icecore.database", "connection_watchdog.sql")
_log = structlog.get_logger("icecore.connections")

# An answer that takes longer makes us ask whether Postgres answers anybody; if not within the second time, it is away.
SILENCE_SECONDS_MAX = 0.75
PROBE_SECONDS_MAX = 1.0
# Between two looks, while something is silent.
LOOK_SECONDS = 0.4


@dataclass(slots=True, eq=False)
class StatementUse:
    """One use of a connection, for no longer than `seconds_max` if a statement is running then.

    is_append -- it may be cancelled: nothing of it is kept then, and it can be sent again.
    is_patient -- a running append is not cancelled to find out whether its session answers: it was once, and did.
    behind_stuck_lock -- it was cancelled because one transaction kept the append lock between two looks.
    """

    seconds_max: float
    is_append: bool = False
    is_patient: bool = False
    behind_stuck_lock: bool = False
    began: float = 0.0
    idle_since: datetime | None = None
    """Since when its session has waited for a statement, as of the last look."""
    asked: bool = False


@dataclass(frozen=True, slots=True)
class _Session:
    """What Postgres says of one of our sessions.

    is_idle -- it waits for a statement. waits_for_lock -- for the append lock, which the transaction `lock_holder` has.
    is_replicated -- commits wait for a standby: one that is cancelled while it waits is answered as if the standby had it.
    """

    is_idle: bool
    state_since: datetime
    waits_for_lock: bool
    lock_holder: str | None
    is_replicated: bool


def sever(connection: Connection | psycopg.Connection[Any]) -> None:
    """Cuts the line, so that whoever waits on it hears an OperationalError now."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class ConnectionWatchdog:
    """Cuts the connections in use when Postgres has stopped answering: hung or unreachable, it sends no error by itself.

    While Postgres lets somebody else connect, a session is cut where Postgres says that it waits for the statement we sent (its process
    is frozen, or the line is dead), and an append where its session does not even heed a cancellation. An append behind one transaction
    that keeps the lock is cancelled. Any other statement merely takes long: it is left alone, up to its limit. So is every append where
    commits wait for a standby.

    silent -- called each time the connections were cut because nobody could connect. frozen -- called where single ones were.
    """

    def __init__(self, dsn: str, silent: Callable[[], None] = lambda: None, frozen: Callable[[], None] = lambda: None) -> None:
        self._dsn = dsn
        self._silent = silent
        self._frozen = frozen
        self._uses: dict[Connection, StatementUse] = {}
        self._lock_holder: str | None = None
        self._looking: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.connections", "database_silent", "database_recovered")

    def begin(self, connection: Connection, use: StatementUse) -> None:
        """The connection is in use from now on."""
        use.began = asyncio.get_running_loop().time()
        self._uses[connection] = use
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="silence-watch")

    def end(self, connection: Connection) -> None:
        self._uses.pop(connection, None)
        if not connection.closed:
            self._outage.succeeded()

    def close(self) -> None:
        """Nothing is in use any more: whoever looked after it need not wait for the end of its pause."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._uses:
                due = min(use.began for use in self._uses.values()) + SILENCE_SECONDS_MAX
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                    continue
                if await self._answers():
                    self._cut_overdue(loop.time())
                else:
                    self._outage.failed(connections=len(self._uses))
                    for connection in [*self._uses]:
                        sever(connection)
                    self._silent()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._looking = None

    async def _answers(self) -> bool:
        """Whether Postgres says anything to a newcomer, also when it only says that there is no room; single sessions are cut here."""
        try:
            async with asyncio.timeout(PROBE_SECONDS_MAX):
                async with await connect(self._dsn, application_name="icecore-probe") as probe:
                    await self._look_at_sessions(probe)
        except TimeoutError:
            return False
        except psycopg.Error:
            # It refuses by itself: then it also ends the connections it has, or serves them.
            return True
        return True

    async def _look_at_sessions(self, probe: Connection) -> None:
        sent_before = asyncio.get_running_loop().time() - SILENCE_SECONDS_MAX
        silent = {
            connection.info.backend_pid: (connection, use)
            for connection, use in self._uses.items()
            if use.began <= sent_before and _waits_for_answer(connection)
        }
        if not silent:
            return
        rows = await (await probe.execute(_SQL["sessions"], {"process_ids": [*silent], "append_lock": AdvisoryLock.APPEND})).fetchall()
        frozen: list[int] = []
        holder: str | None = None
        for process_id, *said in rows:
            connection, use = silent[process_id]
            session = _Session(*said)
            holder = session.lock_holder
            # Else it has been answered meanwhile.
            if self._uses.get(connection) is use and _waits_for_answer(connection):
                if _is_frozen(use, session):
                    frozen.append(process_id)
                elif self._to_be_cancelled(use, session):
                    use.asked = True
                    await _cancel(connection)
        self._lock_holder = holder
        if frozen:
            await self._cut_frozen(probe, frozen, [silent[process_id][0] for process_id in frozen])

    def _to_be_cancelled(self, use: StatementUse, session: _Session) -> bool:
        if session.is_idle or not use.is_append or session.is_replicated:
            return False
        if session.waits_for_lock:
            use.behind_stuck_lock = session.lock_holder is not None and session.lock_holder == self._lock_holder
            return use.behind_stuck_lock
        return not use.is_patient

    async def _cut_frozen(self, probe: Connection, process_ids: Sequence[int], connections: Sequence[Connection]) -> None:
        _log.warning("sessions_frozen", process_ids=process_ids)
        for connection in connections:
            sever(connection)
        self._frozen()
        await probe.execute(_SQL["terminate"], {"process_ids": [*process_ids]})

    def _cut_overdue(self, now: float) -> None:
        """What is in use but idle is left alone: it waits for its owner, not for Postgres."""
        for connection, use in [*self._uses.items()]:
            if use.began + use.seconds_max <= now and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                _log.warning("statement_timed_out", seconds=now - use.began)
                sever(connection)


def _is_frozen(use: StatementUse, session: _Session) -> bool:
    """Whether it has not begun the statement since the last look, or has not heeded a cancellation that was sent then."""
    if session.is_idle:
        waited, use.idle_since = use.idle_since, session.state_since
        return waited == session.state_since
    return use.asked


def _waits_for_answer(connection: Connection) -> bool:
    """Whether a statement was sent, to its end, of whose answer nothing has come."""
    if connection.closed or connection.pgconn.transaction_status != TransactionStatus.ACTIVE or connection.pgconn.flush() != 0:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):
        await connection.cancel_safe(timeout=PROBE_SECONDS_MAX / 2)
