"""Watches connections in use, and closes those on which Postgres or one of its processes has stopped responding."""

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

# After this time without a response, a probe checks whether Postgres accepts connections. If the probe exceeds the second time, Postgres is
# unreachable.
SILENCE_SECONDS_MAX = 0.75
PROBE_SECONDS_MAX = 1.0
# The pause between two checks while a statement has no response.
CHECK_INTERVAL_SECONDS = 0.4


@dataclass(slots=True, eq=False)
class ConnectionUse:
    """One use of a connection, from taking it until giving it back. A statement that still runs `seconds_max` after taking it is cut off.

    is_append -- the statement can be cancelled: it is rolled back and can be sent again.
    cancelled_once -- a running append is not cancelled to test its session, because an earlier cancellation succeeded.
    behind_stuck_lock -- it was cancelled, because one transaction held the append lock during two checks.
    """

    seconds_max: float
    is_append: bool = False
    cancelled_once: bool = False
    behind_stuck_lock: bool = False
    began: float = 0.0
    idle_since: datetime | None = None
    """Since when the session waits for a statement, as of the last check."""
    cancellation_sent: bool = False


@dataclass(frozen=True, slots=True)
class _Session:
    """A row about one of our sessions in pg_stat_activity.

    is_idle -- it waits for a statement. waits_for_lock -- it waits for the append lock, which transaction `lock_holder` holds.
    is_replicated -- commits wait for a standby. Cancelling this wait reports success, although the standby may not have the commit.
    """

    is_idle: bool
    state_since: datetime
    waits_for_lock: bool
    lock_holder: str | None
    is_replicated: bool


def sever(connection: Connection | psycopg.Connection[Any]) -> None:
    """Shuts down the socket, so that everything that waits on the connection fails with OperationalError at once."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class ConnectionWatchdog:
    """Closes connections in use when Postgres is hung or unreachable, because it then reports no error.

    If a new connection can be opened, only single sessions are closed: a session that waits for the statement we sent (its process is
    frozen, or the network connection is dead), and an append whose session ignores a cancellation. An append that waits for one transaction
    that keeps the lock is cancelled. Other statements are only slow and continue up to their limit, as do all appends while commits wait
    for a standby.

    on_unreachable -- called after all connections were closed, because no new one could be opened.
    on_sessions_closed -- called after single connections were closed.
    transaction_pooled -- `dsn` points to PgBouncer in transaction mode. The sessions behind it are unknown, so single ones are neither
        closed nor cancelled.
    """

    def __init__(
        self,
        dsn: str,
        on_unreachable: Callable[[], None] = lambda: None,
        on_sessions_closed: Callable[[], None] = lambda: None,
        *,
        transaction_pooled: bool = False,
    ) -> None:
        self._dsn = dsn
        self._transaction_pooled = transaction_pooled
        self._on_unreachable = on_unreachable
        self._on_sessions_closed = on_sessions_closed
        self._uses: dict[Connection, ConnectionUse] = {}
        self._lock_holder: str | None = None
        self._checking: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.connections", "database_unresponsive", "database_recovered")

    def begin(self, connection: Connection, use: ConnectionUse) -> None:
        """Starts watching the connection."""
        use.began = asyncio.get_running_loop().time()
        self._uses[connection] = use
        if self._checking is None:
            self._checking = asyncio.create_task(self._check(), name="connection-watchdog")

    def end(self, connection: Connection) -> None:
        self._uses.pop(connection, None)
        if not connection.closed:
            self._outage.succeeded()

    def close(self) -> None:
        """Stops watching, without waiting for the end of a pause."""
        if self._checking is not None:
            self._checking.cancel()

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._uses:
                due = min(use.began for use in self._uses.values()) + SILENCE_SECONDS_MAX
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                    continue
                if await self._responds():
                    self._cut_overdue(loop.time())
                else:
                    self._outage.failed(connections=len(self._uses))
                    for connection in [*self._uses]:
                        sever(connection)
                    self._on_unreachable()
                await asyncio.sleep(CHECK_INTERVAL_SECONDS)
        finally:
            self._checking = None

    async def _responds(self) -> bool:
        """Whether Postgres accepts a connection or refuses it with an error. Also checks the sessions that have not responded."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PROBE_SECONDS_MAX
        try:
            async with asyncio.timeout_at(deadline):
                probe = await connect(self._dsn, application_name="icecore-probe", transaction_pooled=self._transaction_pooled)
            # If this task were cancelled instead, psycopg would cancel the statement and wait for its end. A pooler accepts connections
            # and statements while Postgres does not respond.
            limit = loop.call_at(deadline, sever, probe)
            try:
                async with probe:
                    if self._transaction_pooled:
                        await probe.execute(_SQL["responds"])
                    else:
                        await self._check_sessions(probe)
            finally:
                limit.cancel()
        except TimeoutError:
            return False
        except psycopg.Error:
            # Before the deadline, Postgres refuses connections itself. It then serves or ends the existing ones.
            return loop.time() < deadline
        return True

    async def _check_sessions(self, probe: Connection) -> None:
        sent_before = asyncio.get_running_loop().time() - SILENCE_SECONDS_MAX
        silent = {
            connection.info.backend_pid: (connection, use)
            for connection, use in self._uses.items()
            if use.began <= sent_before and _waits_for_response(connection)
        }
        if not silent:
            return
        rows = await (await probe.execute(_SQL["sessions"], {"process_ids": [*silent], "append_lock": AdvisoryLock.APPEND})).fetchall()
        frozen: list[int] = []
        holder: str | None = None
        for process_id, *columns in rows:
            connection, use = silent[process_id]
            session = _Session(*columns)
            holder = session.lock_holder
            # Otherwise the response arrived meanwhile.
            if self._uses.get(connection) is use and _waits_for_response(connection):
                behind_stuck_lock = self._is_behind_stuck_lock(session)
                if _is_frozen(use, session):
                    frozen.append(process_id)
                elif _is_to_be_cancelled(use, session, behind_stuck_lock=behind_stuck_lock):
                    use.cancellation_sent, use.behind_stuck_lock = True, behind_stuck_lock
                    await _cancel(connection)
                if session.is_idle:
                    use.idle_since = session.state_since
        self._lock_holder = holder
        if frozen:
            await self._cut_frozen(probe, frozen, [silent[process_id][0] for process_id in frozen])

    def _is_behind_stuck_lock(self, session: _Session) -> bool:
        """Whether the transaction that the session waits for has held the append lock since the last check."""
        return session.waits_for_lock and session.lock_holder is not None and session.lock_holder == self._lock_holder

    async def _cut_frozen(self, probe: Connection, process_ids: Sequence[int], connections: Sequence[Connection]) -> None:
        _log.warning("sessions_frozen", process_ids=process_ids)
        for connection in connections:
            sever(connection)
        self._on_sessions_closed()
        await probe.execute(_SQL["terminate"], {"process_ids": [*process_ids]})

    def _cut_overdue(self, now: float) -> None:
        """Connections in use without a running statement are not closed."""
        for connection, use in [*self._uses.items()]:
            if use.began + use.seconds_max <= now and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                _log.warning("statement_timed_out", seconds=now - use.began)
                sever(connection)


def _is_frozen(use: ConnectionUse, session: _Session) -> bool:
    """Whether the session has not started the statement since the last check, or ignored the cancellation that was sent then."""
    return use.idle_since == session.state_since if session.is_idle else use.cancellation_sent


def _is_to_be_cancelled(use: ConnectionUse, session: _Session, *, behind_stuck_lock: bool) -> bool:
    if session.is_idle or not use.is_append or session.is_replicated:
        return False
    return behind_stuck_lock if session.waits_for_lock else not use.cancelled_once


def _waits_for_response(connection: Connection) -> bool:
    """Whether a statement was sent completely and no part of the response has arrived."""
    if connection.closed or connection.pgconn.transaction_status != TransactionStatus.ACTIVE or connection.pgconn.flush() != 0:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


async def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):
        await connection.cancel_safe(timeout=PROBE_SECONDS_MAX / 2)
