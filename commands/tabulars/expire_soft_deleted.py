"""The job that makes drops of soft-deleted tables, views and namespaces final, at the moment that was fixed at the drop.

A namespace expires once nothing soft-deleted is left in it, so a tree expires from the inside.

It can be stopped at any moment: each expiry is one event, and what is not expired yet is found again. An undrop that comes first wins. It
goes on in an inactive warehouse, as purges do; what is in it can also be undropped. In a read-only warehouse it waits, as they do.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ...access.request_context import Principal, RequestContext
from ...access.resolve_warehouse import as_warehouse
from ...database.advisory_locks import AdvisoryLock
from ...database.connections import Connection
from ...domain import namespace, table, view
from ...domain.errors import CatalogError
from ...domain.events import NamespaceExpired, TableExpired, ViewExpired
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import soft_deleted, warehouses
from ...projections.soft_deleted import Due, Kind
from ..execution.executor import CommandExecutor
from ..execution.leader_job import LeaderJob
from ..execution.submission import Submission

_log = structlog.get_logger("icecore.soft_deletion")

_READ_AT_ONCE = 100
_FAILURES_REMEMBERED_MAX = 10_000
_PRINCIPAL = Principal("icecore-soft-deletion")


class ExpireSoftDeletedJob(LeaderJob):
    """Expires what is due by the earlier of this process's clock and Postgres's, so that one wrong clock expires nothing too early."""

    NAME = "expire-soft-deleted"
    LEADER_LOCK = AdvisoryLock.EXPIRE_SOFT_DELETED_JOB

    def __init__(self, executor: CommandExecutor) -> None:
        super().__init__(executor)
        self._failed: set[UUID] = set()

    async def run_once(self) -> int:
        """Expires what is due, if no other process leads. Returns the number."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        read_only = await warehouses.read_only_ids(leading)
        expired = await self._expire_all(leading, read_only, soft_deleted.TABULARS)
        # Each pass expires the innermost namespaces that are left.
        while of_this_pass := await self._expire_all(leading, read_only, ("namespace",)):
            expired += of_this_pass
        return expired

    async def _expire_all(self, leading: Connection, read_only: Sequence[UUID], kinds: Sequence[Kind]) -> int:
        expired, after = 0, None
        while page := await soft_deleted.due(leading, self._executor.now_ms(), after, read_only, _READ_AT_ONCE, kinds):
            for each in page:
                expired += await self._attempt(each)
            after = (page[-1].expires_at_ms, page[-1].object_id)
        return expired

    async def _attempt(self, due: Due) -> bool:
        """Whether it was expired here. A failure does not delay others; only the first one in a row is logged."""
        try:
            expired = await self._expire(due)
        except CatalogError as error:
            self._note_failure(due, error=error.message)
        except Exception as error:
            self._note_failure(due, exc_info=error)
        else:
            self._failed.discard(due.object_id)
            return expired
        return False

    def _note_failure(self, due: Due, **details: object) -> None:
        if due.object_id in self._failed:
            return
        if len(self._failed) >= _FAILURES_REMEMBERED_MAX:
            self._failed.clear()
        self._failed.add(due.object_id)
        _log.warning("expiry_retrying", kind=due.kind, id=str(due.object_id), **details)

    async def _expire(self, due: Due) -> bool:
        async with self._executor.connection() as connection:
            warehouse = await warehouses.read_of_any_project(connection, due.warehouse_id)
        assert warehouse is not None, "a table's warehouse is in the log before it"
        if warehouse.read_only:
            return False
        resolver = self._executor.resolver
        stream = resolver.by_id(due.kind, due.object_id)
        async with self._executor.large_documents.share() as share:
            found = await stream.read(share)
            if found is None:
                return False
            state, generation = found
            event = _decide(state, due.now_ms)
            if event is None:
                # It was undropped meanwhile.
                return False
            context = RequestContext(str(uuid7()), warehouse.project_id, _PRINCIPAL, "expireTabular", causation_id=state.event_id)
            # Nothing expires after the warehouse has become read-only.
            submission = Submission(context, decided_on_warehouse=as_warehouse(warehouse, None))
            if isinstance(state, NamespaceState):
                submission.empty.append(state.id)
            submission.add(state.id, state.warehouse_id, state, [event], generation)
            result = await self._executor.committer.submit(submission)
        _log.info("soft_deletion_expired", kind=due.kind, id=str(due.object_id), outcome=result.outcome)
        return result.outcome == "appended"


def _decide(state: NamespaceState | TableState | ViewState, now_ms: int) -> NamespaceExpired | TableExpired | ViewExpired | None:
    match state:
        case NamespaceState():
            return namespace.decide_expire(state, now_ms)
        case TableState():
            return table.decide_expire(state, now_ms)
        case ViewState():
            return view.decide_expire(state, now_ms)
