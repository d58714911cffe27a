"""The purge job: deletes the files of dropped tables whose drop requests it, then records the purge in the log.

It can be stopped at any moment. The next run finds the remaining files, and TablePurged is appended last. Before the first file is deleted,
TaskDeletionBegun is appended. A cancellation that comes first in the log ends the purge, and a later one is refused.
"""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import psycopg
import structlog
from uuid_utils.compat import uuid7

from ...access.request_context import Principal, RequestContext
from ...access.resolve_warehouse import as_warehouse
from ...access.warehouse import Warehouse
from ...database.advisory_locks import AdvisoryLock
from ...database.connections import Connection
from ...domain.errors import CatalogError, ServiceUnavailable, WarehouseReadOnly
from ...domain.table import TableState, decide_purge
from ...domain.task import HEARTBEAT_SECONDS_DEFAULT, PURGE, TaskOf
from ...log.head import log_head
from ...projections import tables, task_runs, tasks, warehouses
from ...projections.tasks import NextPurge
from ...storage.large_documents import DocumentReservation
from ...storage.manifest_reader import ManifestReaders
from ..execution import fault_points
from ..execution.append_request import AppendRequest, AppendResult
from ..execution.executor import CommandExecutor
from ..execution.leader_job import FENCE_SECONDS_MAX, LeaderJob, LeadershipLost
from ..execution.retry_pauses import RetryPauses
from ..tasks.attempts import FailedAttempt, begin_deletion, record_failure
from .table_purge import NamedFiles, PurgedFiles, TablePurge

_log = structlog.get_logger("icecore.purge")

PURGES_CONCURRENT_MAX = 4
# Tables purged at a time from one warehouse. It is less than the total, so that a warehouse with a slow store does not block the others.
PURGES_OF_A_WAREHOUSE_MAX = 3
# How often newly dropped tables and control requests for purges are looked for during a round.
_POLL_SECONDS = 1.0
HEARTBEAT_EVERY_SECONDS = 10.0
_PRINCIPAL = Principal("icecore-purge")


class _NotToBeDone(Exception):
    """The purge was cancelled, or scheduled for later, before it deleted a file."""


@dataclass(slots=True)
class _Attempt:
    """An attempt that runs. progress_at -- monotonic seconds of the last page that was read or deleted; heartbeat_at -- when that was
    reported last. ended_by -- why it was ended: `stop`, or the heartbeat that is missing.
    """

    purge: NextPurge
    number: int
    started_at_ms: int
    heartbeat_seconds_max: int = HEARTBEAT_SECONDS_DEFAULT
    progress_at: float = field(default_factory=time.monotonic)
    heartbeat_at: float = field(default_factory=time.monotonic)
    begun: bool = False
    ended_by: str | None = None

    @property
    def task(self) -> TaskOf:
        return TaskOf(self.purge.task_id, PURGE, "table", self.purge.table_id, "scheduled")

    def progress(self) -> None:
        self.progress_at = time.monotonic()


class PurgeJob(LeaderJob):
    """Deletes files of several tables at a time. A table whose purge failed waits, for longer each time, and has lower priority than
    others.
    """

    NAME = "purge"
    LEADER_LOCK = AdvisoryLock.PURGE_JOB

    def __init__(self, executor: CommandExecutor) -> None:
        super().__init__(executor)
        self._pauses = RetryPauses()
        self._readers = ManifestReaders()
        self._followed: int | None = None
        """The position up to which it knows the control requests."""

    async def run_once(self) -> int:
        """Purges pending tables, if no other process leads. Returns their number."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        """Runs until no purge is pending or in progress."""
        purged = 0
        running: dict[asyncio.Task[bool], _Attempt] = {}
        await task_runs.end_all(leading)
        try:
            while True:
                await self._follow_controls(leading, running)
                await self._begin(leading, running)
                if not running:
                    return purged
                done, _ = await asyncio.wait(running, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    attempt = running.pop(task)
                    if attempt.ended_by is not None and task.cancelled():
                        await self._was_ended(leading, attempt)
                    else:
                        purged += task.result()
                await self._check_heartbeats(leading, running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._readers.close()

    async def _begin(self, leading: Connection, running: dict[asyncio.Task[bool], _Attempt]) -> None:
        """Starts pending purges: first those without a failure, oldest drop first, then those whose pause has ended."""
        while len(running) < PURGES_CONCURRENT_MAX:
            begun = [attempt.purge.task_id for attempt in running.values()]
            of_a_warehouse = Counter(attempt.purge.warehouse_id for attempt in running.values())
            busy = [warehouse_id for warehouse_id, count in of_a_warehouse.items() if count >= PURGES_OF_A_WAREHOUSE_MAX]
            busy += await warehouses.read_only_ids(leading)
            now_ms = self._executor.now_ms()
            next_one = await tasks.next_purge(leading, [*begun, *self._pauses.failed_ids], busy, now_ms)
            if next_one is None and self._pauses.failed_ids:
                next_one = await tasks.next_purge(leading, [*begun, *self._pauses.waiting_ids()], busy, now_ms)
            if next_one is None:
                return
            attempt = _Attempt(next_one, self._pauses.failures_of(next_one.task_id, next_one.last_failed_attempt) + 1, now_ms)
            running[asyncio.create_task(self._attempt(leading, attempt))] = attempt

    async def _follow_controls(self, leading: Connection, running: dict[asyncio.Task[bool], _Attempt]) -> None:
        """Ends attempts that are to be stopped. A purge that was scheduled does not wait for the end of its pause."""
        if self._followed is None:
            # Before it led, it has neither attempts nor pauses.
            self._followed = await log_head(leading)
            return
        for position, task_id, event in await tasks.read_controls(leading, self._followed):
            self._followed = position
            if event == "scheduled":
                self._pauses.forget(task_id)
                continue
            for task, attempt in running.items():
                if attempt.purge.task_id == task_id:
                    attempt.ended_by = "stop"
                    task.cancel()

    async def _check_heartbeats(self, leading: Connection, running: dict[asyncio.Task[bool], _Attempt]) -> None:
        """Reports the progress of attempts, and ends those that have made none for too long."""
        now, progressed = time.monotonic(), []
        for task, attempt in running.items():
            if now - attempt.progress_at > attempt.heartbeat_seconds_max and attempt.ended_by is None:
                attempt.ended_by = "heartbeat"
                task.cancel()
            elif attempt.progress_at > attempt.heartbeat_at and now - attempt.heartbeat_at >= HEARTBEAT_EVERY_SECONDS:
                attempt.heartbeat_at = now
                progressed.append(attempt.purge.task_id)
        if progressed:
            await task_runs.beat(leading, progressed)

    async def _was_ended(self, leading: Connection, attempt: _Attempt) -> None:
        await task_runs.end(leading, attempt.purge.task_id)
        if attempt.ended_by == "stop":
            # The request is in the log already.
            self._pauses.failed(attempt.purge.task_id, attempt.number)
            _log.info("purge_stopped", table_id=str(attempt.purge.table_id))
            return
        error = f"The attempt had no heartbeat for {attempt.heartbeat_seconds_max} seconds"
        if await self._failed(attempt, error):
            _log.warning("purge_retrying", table_id=str(attempt.purge.table_id), error=error)

    async def _attempt(self, leading: Connection, attempt: _Attempt) -> bool:
        """Whether the table is purged. A failure does not delay other tables."""
        table_id = attempt.purge.table_id
        try:
            await task_runs.begin(leading, attempt.purge.task_id, attempt.number)
            purged = await self._purge(leading, attempt)
        except LeadershipLost:
            raise
        except CatalogError as error:
            if await self._failed(attempt, error.message, recorded=not isinstance(error, WarehouseReadOnly)):
                _log.warning("purge_retrying", table_id=str(table_id), error=error.message)
        except Exception as error:
            if await self._failed(attempt, f"An unexpected error: {type(error).__name__}"):
                _log.exception("purge_failed", table_id=str(table_id))
        else:
            self._pauses.forget(attempt.purge.task_id)
            await self._end_run(leading, attempt)
            return purged
        await self._end_run(leading, attempt)
        return False

    async def _end_run(self, leading: Connection, attempt: _Attempt) -> None:
        # If the session has ended, the attempt does not count any more.
        with suppress(psycopg.Error):
            await task_runs.end(leading, attempt.purge.task_id)

    async def _failed(self, attempt: _Attempt, error: str, *, recorded: bool = True) -> bool:
        """Notes a failure. Returns whether it is the purge's first one in a row here, because only that one is logged.

        recorded -- False: the maintenance of a warehouse is no failure of the purge.
        """
        first = attempt.purge.task_id not in self._pauses.failed_ids
        pause_seconds = self._pauses.failed(attempt.purge.task_id, attempt.number)
        if recorded:
            failed = FailedAttempt(attempt.task, attempt.purge.warehouse_id, attempt.number, attempt.started_at_ms, pause_seconds, error)
            await record_failure(self._executor, _PRINCIPAL, failed)
        return first

    async def _purge(self, leading: Connection, attempt: _Attempt) -> bool:
        table_id, warehouse_id = attempt.purge.table_id, attempt.purge.warehouse_id
        async with self._executor.connection() as connection:
            state = await warehouses.read_of_any_project(connection, warehouse_id)
        named = await self._named_files(table_id)
        if named is None:
            return False
        assert state is not None, "a table's warehouse is in the log before it"
        attempt.heartbeat_seconds_max = state.purge_heartbeat_seconds_max or HEARTBEAT_SECONDS_DEFAULT
        warehouse = as_warehouse(state, None)
        store = await self._executor.store(warehouse)
        async with self._readers.one() as reader:
            fence = partial(self._fence, leading, attempt, warehouse)
            purge = TablePurge(store, warehouse.profile.storage_identity, named, reader, fence, attempt.progress)
            try:
                files = await purge.run()
            except _NotToBeDone:
                return False
        if fault_points.SWITCHED_ON:
            await fault_points.reach("purge.before_event")
        while True:
            result = await self._append(warehouse, table_id, files)
            if result is None:
                return False
            if result.outcome != "warehouse_changed":
                break
            # The event of a second run would not name what the first one deleted.
            async with self._executor.connection() as connection:
                state = await warehouses.read_of_any_project(connection, warehouse_id)
            assert state is not None
            warehouse = as_warehouse(state, None)
            if warehouse.read_only:
                raise warehouse.read_only_error()
        _log.info(
            "table_purged",
            table_id=str(table_id),
            files_deleted=files.deleted,
            files_left=files.left_count,
            manifests_missing=files.missing,
            manifests_unreadable=files.unreadable,
            outcome=result.outcome,
        )
        if result.outcome != "appended":
            # Retried after a pause, although the error may be permanent.
            raise ServiceUnavailable(f"The event was not appended: {result.outcome}")
        return True

    async def _named_files(self, table_id: UUID) -> NamedFiles | None:
        """None if the table is not being purged. The state of a large table is read within the limit on memory, and not kept."""
        async with self._executor.large_documents.reservation() as reservation:
            found = await self._read(table_id, reservation)
            return None if found is None or found[0].status != "purging" else NamedFiles.of(found[0])

    async def _append(self, warehouse: Warehouse, table_id: UUID, files: PurgedFiles) -> AppendResult | None:
        """None if the table is not being purged any more."""
        async with self._executor.large_documents.reservation() as reservation:
            found = await self._read(table_id, reservation, head=True)
            if found is None:
                return None
            table, generation = found
            event = decide_purge(table, files.deleted, files.left, files.left_count)
            if event is None:
                return None
            context = RequestContext(str(uuid7()), warehouse.project_id, _PRINCIPAL, "purgeTable", causation_id=table.event_id)
            # Not if the warehouse has become read-only meanwhile.
            append_request = AppendRequest(context, decided_on_warehouse=warehouse)
            append_request.add(table_id, warehouse.id, table, [event], generation)
            return await self._executor.committer.submit(append_request)

    async def _read(self, table_id: UUID, reservation: DocumentReservation, *, head: bool = False) -> tuple[TableState, int] | None:
        """The state, and the generation of the read models it was read from. head -- as in Resolver.table_by_id."""
        return await self._executor.resolver.table_by_id(table_id, head=head).read(reservation)

    async def _fence(self, leading: Connection, attempt: _Attempt, warehouse: Warehouse) -> None:
        """Raises LeadershipLost unless this process leads and the table still holds its locations, and WarehouseReadOnly.

        Before the first deletion: raises _NotToBeDone if the purge was cancelled or postponed meanwhile, and records that it begins.
        """
        try:
            async with asyncio.timeout(FENCE_SECONDS_MAX):
                read_only = await warehouses.is_read_only(leading, warehouse.id)
                holds = await self.leads(leading)
                purging = await tables.is_purging(leading, attempt.purge.table_id)
        except (TimeoutError, psycopg.Error):
            holds = read_only = purging = False
        if not holds or (attempt.begun and not purging):
            raise LeadershipLost("Another process may be the leader")
        if not purging:
            raise _NotToBeDone
        if read_only:
            # The purge goes on after the maintenance.
            raise warehouse.read_only_error()
        if not attempt.begun:
            if not await begin_deletion(self._executor, _PRINCIPAL, attempt.task, warehouse, attempt.number, attempt.started_at_ms):
                raise _NotToBeDone
            attempt.begun = True
