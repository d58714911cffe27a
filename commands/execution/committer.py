"""The committer: sends waiting commands to Postgres together, in one call of `icecore.append`, the only commit point."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
import structlog

from ...database.connection import connect
from ...database.connection_watchdog import ConnectionUse, ConnectionWatchdog
from ...database.connections import CONNECT_SECONDS_MAX, Connection, has_ended
from ...database.host_lists import host_count
from ...database.named_sql import named_sql
from ...database.outage_log import OutageLog
from ...database.write_refusal import was_rolled_back, write_refusal_reason
from ...domain.client_errors import client_error_text
from ...domain.errors import CommitStateUnknown, InternalError, ServiceUnavailable, TooManyRequests
from . import fault_points
from .append_request import APPEND_ERROR_MESSAGE, AppendRequest, AppendResult, IdempotencyRecord
from .committer_metrics import CommitterMetrics
from .offload import in_thread_if

_SQL = named_sql("icecore.commands.execution", "committer.sql")
_log = structlog.get_logger("icecore.committer")

# Postgres keeps up to 64 subtransactions of a transaction in shared memory (PGPROC_MAX_CACHED_SUBXIDS).
APPEND_COMMANDS_MAX = 64
COMMITTER_QUEUE_COMMANDS_MAX = 4096
STREAMS_INLINE_MAX = 256
"""Most streams of a call that is encoded on the event loop; larger calls are encoded in a thread."""
LOCK_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT_SECONDS = 30
# How long commands are collected while a call is in flight before the next one is sent: many small calls that wait for the lock cost
# Postgres more.
LINGER_SECONDS_MAX = 0.02
# How long a call whose result was lost is sent again before the client gets CommitStateUnknown, in general and if another transaction
# holds the append lock all that time.
DOUBT_SECONDS_MAX, DOUBT_BEHIND_LOCK_SECONDS_MAX = 10, 1.75
_PAUSE_SECONDS = 0.1
# How long a refusal of writes is reported to health checks. A load balancer sends no writes meanwhile, so one must be tried afterwards.
REFUSAL_SECONDS = 10.0
# No earlier copy of a command with such an outcome can be appended any more.
_FINAL = frozenset({"appended", "recorded", "replayed", "key_reused"})


@dataclass(slots=True)
class _PendingBatch:
    """A batch of a stream or a single command. Its append requests are appended by one call, in this order.

    in_doubt -- it may be in the log already, because the response to an earlier call was lost.
    """

    append_requests: Sequence[AppendRequest]
    results: "asyncio.Future[list[AppendResult]]"
    in_doubt: bool = False


_AppendCall = list[_PendingBatch]
"""What one call of `icecore.append` appends, in this order."""


class Committer:
    """Sends up to `connections` calls at a time. The next is sent when the previous one has returned, or after LINGER_SECONDS_MAX.

    The result of a command is an AppendResult. Raises ServiceUnavailable if the command was not appended because Postgres cannot be used,
    InternalError if Postgres rolled it back for another reason, CommitStateUnknown if its outcome could not be found out, TooManyRequests
    if the queue is full.

    transaction_pooled -- `dsn` points to PgBouncer in transaction mode.
    """

    def __init__(self, dsn: str, connections: int = 2, *, transaction_pooled: bool = False) -> None:
        self._dsn = dsn
        self._transaction_pooled = transaction_pooled
        self._connections = connections
        self._waiting: deque[_PendingBatch] = deque()
        self._queued = 0
        self._closed = False
        self._refused_writes: tuple[float, str] | None = None
        self.metrics = CommitterMetrics()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._lingering = False
        self._tasks: list[asyncio.Task[None]] = []
        self._watchdog = ConnectionWatchdog(dsn, self._refuse_waiting, transaction_pooled=transaction_pooled)
        self._outage = OutageLog("icecore.committer", "append_connection_lost", "append_recovered")
        self.on_unavailable: Callable[[str], None] = lambda reason: None
        """Called with the reason when Postgres cannot be used, so that others can refuse waiting commands that were never sent."""

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._send_append_calls(), name=f"committer-{n}") for n in range(self._connections)]

    async def close(self) -> None:
        """Stops sending, and refuses the commands that wait or come later."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._watchdog.close()
        while self._waiting:
            _fail([self._waiting.popleft()], _stopping())

    @property
    def writes_refused(self) -> str | None:
        """Why Postgres refused a write, if it did so within REFUSAL_SECONDS and no later write succeeded; else None."""
        if self._refused_writes is None or time.monotonic() - self._refused_writes[0] > REFUSAL_SECONDS:
            return None
        return self._refused_writes[1]

    @property
    def queued(self) -> int:
        """Number of commands waiting for a call."""
        return self._queued

    async def submit(self, append_request: AppendRequest) -> AppendResult:
        (result,) = await self.submit_batch([append_request])
        return result

    async def submit_batch(self, append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
        """Appends commands that depend on each other by one call, in this order. Each has its own result."""
        assert 0 < len(append_requests) <= APPEND_COMMANDS_MAX
        if self._closed:
            raise _stopping()
        if self._queued + len(append_requests) > COMMITTER_QUEUE_COMMANDS_MAX:
            raise TooManyRequests(f"{COMMITTER_QUEUE_COMMANDS_MAX} commands are already waiting to be committed; try again later")
        self._waiting.append(_PendingBatch(append_requests, asyncio.get_running_loop().create_future()))
        self._queued += len(append_requests)
        self._wake()
        # Cancelling a request does not cancel its command, which may share a call with others.
        # The future is not a local variable: its error would refer to this frame and this frame to the future, a reference cycle that
        # would keep the append requests in memory.
        return await self._waiting[-1].results

    def _next_append_call(self) -> _AppendCall:
        """The next batches, as many as fit into one call."""
        call: _AppendCall = []
        remaining = APPEND_COMMANDS_MAX
        while self._waiting and len(self._waiting[0].append_requests) <= remaining:
            call.append(self._waiting.popleft())
            remaining -= len(call[-1].append_requests)
        self._queued -= APPEND_COMMANDS_MAX - remaining
        return call

    async def _send_append_calls(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                await self._wait_for_commands()
                linger_timer = asyncio.get_running_loop().call_later(LINGER_SECONDS_MAX, self._end_linger)
                try:
                    if call := self._next_append_call():
                        connection = await self._send_until_outcome_known(connection, call)
                finally:
                    linger_timer.cancel()
                    self._lingering = False
                    # Dropped now, not at the next call: it may hold a large document, with its states before and after.
                    call = []
        finally:
            if connection is not None:
                await connection.close()

    async def _wait_for_commands(self) -> None:
        """Waits until a command is waiting and no other connection takes it."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle_waiters.append(waiter)
        self._wake()
        await waiter

    def _wake(self) -> None:
        """Wakes one connection if there is work: the one that worked last, whose server process has warm caches."""
        while self._waiting and self._idle_waiters and not self._lingering:
            waiter = self._idle_waiters.pop()
            if not waiter.done():
                self._lingering = True
                waiter.set_result(None)

    def _end_linger(self) -> None:
        self._lingering = False
        self._wake()

    async def _send_until_outcome_known(self, connection: Connection | None, call: _AppendCall) -> Connection | None:
        """Sends a call until its outcome is known or cannot be known. Returns the connection for the next call."""
        sent = cancelled_once = False  # by any attempt
        began = time.monotonic()
        try:
            while True:
                use = ConnectionUse(STATEMENT_TIMEOUT_SECONDS + 1, is_append=True, cancelled_once=cancelled_once)
                sent_now = False
                try:
                    if connection is None or has_ended(connection):
                        connection = await self._reconnect(connection)
                    sent = sent_now = True
                    await self._append(connection, call, use)
                    return connection
                except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction, TimeoutError) as error:
                    if isinstance(error, psycopg.errors.QueryCanceled) and not use.behind_stuck_lock and not cancelled_once:
                        # The session works, so the call is only slow.
                        cancelled_once = True
                        continue
                    connection = await self._record_failure(connection, call, error, sent_now=sent_now)
                    if not any(batch.in_doubt for batch in call):
                        await self._refuse_not_appended(connection, call, error, use)
                        return connection
                    if time.monotonic() - began > (DOUBT_BEHIND_LOCK_SECONDS_MAX if use.behind_stuck_lock else DOUBT_SECONDS_MAX):
                        _fail(call, _outcome_unknown("the connection to Postgres was lost before its response arrived"))
                        return connection
                    await asyncio.sleep(_PAUSE_SECONDS)
        except asyncio.CancelledError:
            _fail_stopped(call, sent=sent)
            if connection is not None:
                await connection.close()
            raise
        except Exception as error:
            _log.warning("append_call_failed", error=client_error_text(error), stream_batches=len(call))
            return await self._append_call_one_by_one(connection, call, error)

    async def _record_failure(
        self, connection: Connection | None, call: _AppendCall, error: Exception, *, sent_now: bool
    ) -> Connection | None:
        """Records that Postgres refuses writes, or that the call is in doubt. Returns the connection, or None if it is not to be reused."""
        reason = write_refusal_reason(error)
        if reason is not None:
            self._refused_writes = (time.monotonic(), reason)
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) and connection is not None:
            # The next connection may reach the new primary.
            await connection.close()
            return None
        if not (connection is None or connection.closed or connection.broken):
            return connection
        self._outage.failed(sent=sent_now, error=client_error_text(error), stream_batches=len(call))
        self.metrics.responses_lost += sent_now
        for batch in call:
            batch.in_doubt |= sent_now
        return None

    async def _refuse_not_appended(self, connection: Connection | None, call: _AppendCall, error: Exception, use: ConnectionUse) -> None:
        """Refuses a call that was not sent, or that Postgres reported as rolled back."""
        reason = write_refusal_reason(error) or ("Postgres cannot be reached" if connection is None else "Postgres is busy")
        _fail(call, ServiceUnavailable(reason, retry_after_seconds=1))
        if use.behind_stuck_lock:
            self._outage.failed("lock", began="append_lock_blocked", stream_batches=len(call))
            self._refuse_waiting("Postgres is busy")

    async def _append_call_one_by_one(self, connection: Connection | None, call: _AppendCall, error: Exception) -> Connection | None:
        """Appends the commands of a failed call one by one, because its error does not contain which of them failed."""
        if len(call) == 1 and len(call[0].append_requests) == 1:
            if was_rolled_back(error) and not call[0].in_doubt:
                _fail(call, InternalError(APPEND_ERROR_MESSAGE))
            else:
                _fail(call, _outcome_unknown("the append was interrupted"))
            return connection
        try:
            for batch in call:
                batch.in_doubt |= not was_rolled_back(error)
                connection = await self._append_batch_one_by_one(connection, batch)
        except asyncio.CancelledError:
            _fail_stopped(call, sent=True)
            raise
        return connection

    async def _append_batch_one_by_one(self, connection: Connection | None, batch: _PendingBatch) -> Connection | None:
        """Appends a batch command by command, up to the first without an outcome. If one fails, later commands of the same stream then fail
        with `version_conflict`, because the event they expect was not appended.
        """
        results: list[AppendResult] = []
        for append_request in batch.append_requests:
            single = _PendingBatch([append_request], asyncio.get_running_loop().create_future(), batch.in_doubt)
            connection = await self._send_until_outcome_known(connection, [single])
            error = single.results.exception()
            if isinstance(error, ServiceUnavailable) and results:
                error = _outcome_unknown("the connection to Postgres was lost before all results of a batch arrived")
            if error is not None and not isinstance(error, InternalError):
                # The commands after it must not be appended: if it was refused, the metadata files of the whole batch are deleted.
                _fail([batch], error)
                return connection
            results += single.results.result() if error is None else [AppendResult("error", 0, str(error))]
        if not batch.results.done():
            batch.results.set_result(results)
        return connection

    async def _reconnect(self, ended: Connection | None) -> Connection:
        """Opens a connection. If this fails, the waiting commands are refused."""
        if ended is not None:
            await ended.close()
        try:
            return await self._connect()
        except (psycopg.OperationalError, TimeoutError):
            self._refuse_waiting()
            raise

    def _refuse_waiting(self, reason: str = "Postgres cannot be reached") -> None:
        """Refuses commands that were never sent, because Postgres is unreachable or refuses writes."""
        waiting = [*self._waiting]
        self._waiting.clear()
        self._queued = 0
        _fail(waiting, ServiceUnavailable(reason, retry_after_seconds=1))
        self.on_unavailable(reason)

    async def _connect(self) -> Connection:
        async with asyncio.timeout(CONNECT_SECONDS_MAX * host_count(self._dsn)):
            return await connect(
                self._dsn,
                connect_timeout=CONNECT_SECONDS_MAX,
                prepare_threshold=0,
                application_name="icecore-committer",
                options=f"-c lock_timeout={LOCK_TIMEOUT_SECONDS}s -c statement_timeout={STATEMENT_TIMEOUT_SECONDS}s",
                transaction_pooled=self._transaction_pooled,
            )

    async def _append(self, connection: Connection, call: _AppendCall, use: ConnectionUse) -> None:
        self._watchdog.begin(connection, use)
        try:
            if fault_points.SWITCHED_ON:
                await fault_points.reach("commit.before_append")
            append_requests = [append_request for batch in call for append_request in batch.append_requests]
            results = iter(await _send(connection, append_requests, self.metrics))
            self._refused_writes = None
            self._outage.succeeded()
            self.metrics.append_sizes[len(append_requests)] += 1
            if fault_points.SWITCHED_ON:
                await fault_points.reach("commit.after_append")
            for batch in call:
                batch_results = [next(results) for _ in batch.append_requests]
                if batch.in_doubt:
                    pairs = zip(batch.append_requests, batch_results, strict=True)
                    batch_results = [await self._rule_out_earlier_copy(connection, *pair) for pair in pairs]
                if not batch.results.done():
                    batch.results.set_result(batch_results)
        finally:
            self._watchdog.end(connection)

    async def _rule_out_earlier_copy(self, connection: Connection, append_request: AppendRequest, result: AppendResult) -> AppendResult:
        """The result of a command that was sent again, once no earlier copy of it can change that result."""
        if result.outcome == "recorded" and append_request.has_events:
            # The log has only the row without events that blocks its id, from a call whose result was lost. It is decided again.
            return AppendResult("version_conflict", result.position)
        if result.outcome in _FINAL:
            return result
        # The earlier copy may still arrive. A row without events under the same id prevents it from being appended.
        (blocked,) = await _send(connection, [AppendRequest(append_request.context, append_request.command_id)], self.metrics)
        # It was appended after all if the row came too late.
        return blocked if blocked.outcome == "appended" else result


async def _send(connection: Connection, append_requests: list[AppendRequest], metrics: CommitterMetrics) -> list[AppendResult]:
    many = sum(append_request.stream_count for append_request in append_requests) > STREAMS_INLINE_MAX
    commands, blobs = await in_thread_if(many, _encoded, append_requests)
    # In binary, since text would be escaped byte by byte here and in Postgres. An empty list would have no type.
    began = time.perf_counter()
    cursor = await connection.execute(_SQL["append"], {"commands": commands, "blobs": blobs or [b""]}, binary=True)
    rows = await cursor.fetchall()
    assert len(rows) == len(append_requests), "append returns a row for every command"
    metrics.append_seconds += time.perf_counter() - began
    metrics.waited_seconds += rows[0][-1] / 1_000_000
    return [_result(row[:-1]) for row in rows]


def _encoded(append_requests: list[AppendRequest]) -> tuple[str, list[bytes]]:
    blobs: list[bytes] = []
    return orjson.dumps([append_request.to_json(blobs) for append_request in append_requests]).decode(), blobs


def _result(row: tuple[Any, ...]) -> AppendResult:
    _, outcome, position, detail, status, object_id, version, body = row
    record = None if status is None else IdempotencyRecord(status, object_id, version, body)
    if outcome == "error":
        _log.error("append_failed", detail=detail)
    if outcome in ("replayed", "key_reused"):
        return AppendResult(outcome, position, idempotency_record=record, operation=detail)
    return AppendResult(outcome, position, detail, record)


def _fail_stopped(call: _AppendCall, *, sent: bool) -> None:
    """Fails a call that was in flight when the server stopped: refused if it was not sent, otherwise in doubt."""
    if sent or any(batch.in_doubt for batch in call):
        _fail(call, _outcome_unknown("the server stopped before the response of Postgres arrived"))
    else:
        _fail(call, _stopping())


def _outcome_unknown(reason: str) -> CommitStateUnknown:
    return CommitStateUnknown(f"The outcome of the commit is unknown, because {reason}: load the table or view before you delete any files")


def _stopping() -> ServiceUnavailable:
    return ServiceUnavailable("The server is stopping", retry_after_seconds=1)


def _fail(batches: Sequence[_PendingBatch], error: BaseException) -> None:
    """Completes batches with an error, unless they are complete: a refusal, or CommitStateUnknown if they may be in the log."""
    for batch in batches:
        if not batch.results.done():
            batch.results.set_exception(error)
            # Marks the exception as retrieved: if the request was cancelled, no task awaits the result.
            batch.results.exception()
