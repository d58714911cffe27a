"""The purge job: deletes the files of tables that were dropped with `purgeRequested`, then records the purge in the log.

It can be stopped at any moment. The next run finds the remaining files, and TablePurged is appended last.
"""

import asyncio
import time
from collections import Counter
from functools import partial
from typing import NamedTuple
from uuid import UUID

import psycopg
import structlog
from uuid_utils.compat import uuid7

from ...access.request_context import Principal, RequestContext
from ...access.resolve_warehouse import as_warehouse
from ...access.warehouse import Warehouse
from ...database.advisory_locks import AdvisoryLock
from ...database.connections import Connection
from ...domain.errors import CatalogError, ServiceUnavailable
from ...domain.table import TableState, decide_purge
from ...projections import tables, warehouses
from ...storage.large_documents import DocumentShare
from ...storage.manifest_reader import ManifestReaders
from ..execution.executor import CommandExecutor
from ..execution.leader_job import FENCE_SECONDS_MAX, LeaderJob, LeadershipLost
from ..execution.submission import AppendResult, Submission
from .table_purge import NamedFiles, PurgedFiles, TablePurge

_log = structlog.get_logger("icecore.purge")

PURGES_AT_ONCE_MAX = 4
# Tables purged at a time from one warehouse. It is less than the total, so that a warehouse with a slow store does not block the others.
PURGES_OF_A_WAREHOUSE_MAX = 3
PAUSE_SECONDS_MIN = 1.0
PAUSE_SECONDS_MAX = 300.0
FAILURES_REMEMBERED_MAX = 10_000
# How often newly dropped tables are looked for during a round.
_POLL_SECONDS = 1.0
_PRINCIPAL = Principal("icecore-purge")


class _Failure(NamedTuple):
    """The last failure of a table's purge: the pause, and its end (monotonic seconds)."""

    pause_seconds: float
    until: float


class PurgeJob(LeaderJob):
    """Deletes files of several tables at a time. A table whose purge failed waits, for longer each time, and has lower priority than
    others.
    """

    NAME = "purge"
    LEADER_LOCK = AdvisoryLock.PURGE_JOB

    def __init__(self, executor: CommandExecutor) -> None:
        super().__init__(executor)
        self._failures: dict[UUID, _Failure] = {}
        self._readers = ManifestReaders()

    async def run_once(self) -> int:
        """Purges pending tables, if no other process leads. Returns their number."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        """Runs until no purge is pending or in progress."""
        purged = 0
        running: dict[asyncio.Task[bool], tuple[UUID, UUID]] = {}
        try:
            while True:
                await self._begin(leading, running)
                if not running:
                    return purged
                done, _ = await asyncio.wait(running, timeout=_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del running[task]
                    purged += task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._readers.close()

    async def _begin(self, leading: Connection, running: dict[asyncio.Task[bool], tuple[UUID, UUID]]) -> None:
        """Starts pending purges: first those without a failure, oldest drop first, then those whose pause has ended."""
        while len(running) < PURGES_AT_ONCE_MAX:
            begun, now = [table_id for table_id, _ in running.values()], time.monotonic()
            of_a_warehouse = Counter(warehouse_id for _, warehouse_id in running.values())
            busy = [warehouse_id for warehouse_id, count in of_a_warehouse.items() if count >= PURGES_OF_A_WAREHOUSE_MAX]
            busy += await warehouses.read_only_ids(leading)
            paused = [table_id for table_id, failure in self._failures.items() if failure.until > now]
            next_one = await tables.next_purging(leading, [*begun, *self._failures], busy)
            if next_one is None and self._failures:
                next_one = await tables.next_purging(leading, [*begun, *paused], busy)
            if next_one is None:
                return
            table_id, warehouse_id = next_one
            running[asyncio.create_task(self._attempt(leading, table_id, warehouse_id))] = next_one

    async def _attempt(self, leading: Connection, table_id: UUID, warehouse_id: UUID) -> bool:
        """Whether the table is purged. A failure does not delay other tables."""
        try:
            purged = await self._purge(leading, table_id, warehouse_id)
        except LeadershipLost:
            raise
        except CatalogError as error:
            if self._failed(table_id):
                _log.warning("purge_retrying", table_id=str(table_id), error=error.message)
        except Exception:
            if self._failed(table_id):
                _log.exception("purge_failed", table_id=str(table_id))
        else:
            self._failures.pop(table_id, None)
            return purged
        return False

    def _failed(self, table_id: UUID) -> bool:
        """Records a failure. Returns whether it is the purge's first one in a row, because only that one is logged."""
        before = self._failures.pop(table_id, None)
        pause = PAUSE_SECONDS_MIN if before is None else min(before.pause_seconds * 2, PAUSE_SECONDS_MAX)
        if len(self._failures) >= FAILURES_REMEMBERED_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[table_id] = _Failure(pause, time.monotonic() + pause)
        return before is None

    async def _purge(self, leading: Connection, table_id: UUID, warehouse_id: UUID) -> bool:
        async with self._executor.connection() as connection:
            state = await warehouses.read_of_any_project(connection, warehouse_id)
        named = await self._named_files(table_id)
        if named is None:
            return False
        assert state is not None, "a table's warehouse is in the log before it"
        warehouse = as_warehouse(state, None)
        store = await self._executor.store(warehouse)
        async with self._readers.one() as reader:
            fence = partial(self._fence, leading, table_id, warehouse)
            files = await TablePurge(store, warehouse.profile.storage_identity, named, reader, fence).run()
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
        async with self._executor.large_documents.share() as share:
            found = await self._read(table_id, share)
            return None if found is None or found[0].status != "purging" else NamedFiles.of(found[0])

    async def _append(self, warehouse: Warehouse, table_id: UUID, files: PurgedFiles) -> AppendResult | None:
        """None if the table is not being purged any more."""
        async with self._executor.large_documents.share() as share:
            found = await self._read(table_id, share)
            if found is None:
                return None
            table, generation = found
            event = decide_purge(table, files.deleted, files.left, files.left_count)
            if event is None:
                return None
            context = RequestContext(str(uuid7()), warehouse.project_id, _PRINCIPAL, "purgeTable", causation_id=table.event_id)
            # Not if the warehouse has become read-only meanwhile.
            submission = Submission(context, decided_on_warehouse=warehouse)
            submission.add(table_id, warehouse.id, table, [event], generation)
            return await self._executor.committer.submit(submission)

    async def _read(self, table_id: UUID, share: DocumentShare) -> tuple[TableState, int] | None:
        """The state, and the generation of the read models it was read from."""
        return await self._executor.resolver.table_by_id(table_id).read(share)

    async def _fence(self, leading: Connection, table_id: UUID, warehouse: Warehouse) -> None:
        """Raises LeadershipLost unless this process leads and the table still holds its locations, and WarehouseReadOnly."""
        try:
            async with asyncio.timeout(FENCE_SECONDS_MAX):
                read_only = await warehouses.is_read_only(leading, warehouse.id)
                holds = await self.leads(leading) and await tables.is_purging(leading, table_id)
        except (TimeoutError, psycopg.Error):
            holds = read_only = False
        if not holds:
            raise LeadershipLost("Another process may be the leader")
        if read_only:
            # The purge goes on after the maintenance.
            raise warehouse.read_only_error()
