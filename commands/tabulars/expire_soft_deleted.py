"""The job that makes drops of soft-deleted tables, views and namespaces final, at the time that was fixed at the drop.

A namespace expires once nothing soft-deleted is left in it, so a tree expires from the inside. If a final drop of a namespace was too large
for one command, what is soft-deleted in it expires at once, before its own moment (commands/namespaces/drop_namespace_tree.py).

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
from ...domain.errors import CatalogError, ServiceUnavailable
from ...domain.events import NamespaceExpired, TableExpired, ViewExpired
from ...domain.identifiers import ContentKind
from ...domain.namespace import NamespaceState
from ...domain.table import TableState
from ...domain.task import EXPIRATION
from ...domain.view import ViewState
from ...projections import namespaces, soft_deleted, tasks, warehouses
from ...projections.soft_deleted import Due
from ..execution.append_request import AppendRequest
from ..execution.executor import CommandExecutor
from ..execution.leader_job import LeaderJob
from ..execution.retry_pauses import RetryPauses
from ..tasks.attempts import FailedAttempt, record_failure

_log = structlog.get_logger("icecore.soft_deletion")

_PAGE_SIZE = 100
_PRINCIPAL = Principal("icecore-soft-deletion")


class ExpireSoftDeletedJob(LeaderJob):
    """Expires what is due by the earlier of this process's clock and Postgres's, so that one wrong clock expires nothing too early."""

    NAME = "expire-soft-deleted"
    LEADER_LOCK = AdvisoryLock.EXPIRE_SOFT_DELETED_JOB

    def __init__(self, executor: CommandExecutor) -> None:
        super().__init__(executor)
        self._pauses = RetryPauses()

    async def run_once(self) -> int:
        """Expires what is due, if no other process leads. Returns the number."""
        return await self.lead(self._round)

    async def _round(self, leading: Connection) -> int:
        read_only = await warehouses.read_only_ids(leading)
        expired = await self._expire_all(leading, read_only, soft_deleted.TABULARS)
        expired += await self._expire_inside(leading, read_only, soft_deleted.TABULARS)
        # Each pass expires the innermost namespaces that are left.
        while of_this_pass := await self._expire_namespaces(leading, read_only):
            expired += of_this_pass
        return expired

    async def _expire_namespaces(self, leading: Connection, read_only: Sequence[UUID]) -> int:
        expired = await self._expire_all(leading, read_only, ("namespace",))
        return expired + await self._expire_inside(leading, read_only, ("namespace",))

    async def _expire_inside(self, leading: Connection, read_only: Sequence[UUID], kinds: Sequence[ContentKind]) -> int:
        """Expires what is in due namespaces and not due itself."""
        expired, after = 0, None
        waiting = {*self._pauses.waiting_ids()}
        while page := await soft_deleted.due_inside(leading, self._executor.now_ms(), after, read_only, _PAGE_SIZE, kinds):
            for each in page:
                if each.object_id not in waiting:
                    expired += await self._attempt(each)
            after = page[-1].object_id
        return expired

    async def _expire_all(self, leading: Connection, read_only: Sequence[UUID], kinds: Sequence[ContentKind]) -> int:
        expired, after = 0, None
        waiting = {*self._pauses.waiting_ids()}
        while page := await soft_deleted.due(leading, self._executor.now_ms(), after, read_only, _PAGE_SIZE, kinds):
            for each in page:
                if each.object_id not in waiting:
                    expired += await self._attempt(each)
            after = (page[-1].expires_at_ms, page[-1].object_id)
        return expired

    async def _attempt(self, due: Due) -> bool:
        """Whether this process expired it. After a failure it waits, longer each time, without delaying others. Only the first failure in a
        row is logged.
        """
        started_at_ms = self._executor.now_ms()
        try:
            expired = await self._expire(due)
        except CatalogError as error:
            await self._failed(due, started_at_ms, error.message, error=error.message)
        except Exception as error:
            await self._failed(due, started_at_ms, f"An unexpected error: {type(error).__name__}", exc_info=error)
        else:
            self._pauses.forget(due.object_id)
            return expired
        return False

    async def _failed(self, due: Due, started_at_ms: int, message: str, **details: object) -> None:
        if due.object_id not in self._pauses.failed_ids:
            _log.warning("expiry_retrying", kind=due.kind, id=str(due.object_id), **details)
        async with self._executor.connection() as connection:
            task = await tasks.unfinished_of(connection, due.object_id)
            states = {} if task is None else await tasks.read_states(connection, [task.id])
        recorded = 0 if task is None or task.id not in states else states[task.id][0].last_failed_attempt
        attempt = self._pauses.failures_of(due.object_id, recorded) + 1
        pause_seconds = self._pauses.failed(due.object_id, attempt)
        if task is not None and task.queue == EXPIRATION:
            await record_failure(
                self._executor, _PRINCIPAL, FailedAttempt(task, due.warehouse_id, attempt, started_at_ms, pause_seconds, message)
            )

    async def _expire(self, due: Due) -> bool:
        async with self._executor.connection() as connection:
            warehouse = await warehouses.read_of_any_project(connection, due.warehouse_id)
        assert warehouse is not None, "a table's warehouse is in the log before it"
        if warehouse.read_only:
            return False
        resolver = self._executor.resolver
        stream = resolver.by_id(due.kind, due.object_id, head=True)
        async with self._executor.large_documents.reservation() as reservation:
            found = await stream.read(reservation)
            if found is None:
                return False
            state, generation = found
            above = await self._due_namespace(due)
            event = _decide(state, due.now_ms if above is None else None)
            if event is None or (due.due_namespace_id is not None and above is None):
                # It was undropped meanwhile, or another process expired it.
                return False
            context = RequestContext(str(uuid7()), warehouse.project_id, _PRINCIPAL, "expireSoftDeleted", causation_id=state.event_id)
            # Nothing expires after the warehouse has become read-only.
            append_request = AppendRequest(context, decided_on_warehouse=as_warehouse(warehouse, None))
            if isinstance(state, NamespaceState):
                append_request.must_be_empty.append(state.id)
            if above is not None:
                append_request.depend_on(above)
            append_request.add(state.id, state.warehouse_id, state, [event], generation)
            result = await self._executor.committer.submit(append_request)
        if result.outcome == "error":
            raise ServiceUnavailable("Postgres rejected the event")
        if result.outcome == "appended":
            _log.info("soft_deletion_expired", kind=due.kind, id=str(due.object_id))
        return result.outcome == "appended"

    async def _due_namespace(self, due: Due) -> NamespaceState | None:
        """The namespace with which the object expires; None if it expires on its own, or the namespace was undropped meanwhile."""
        if due.due_namespace_id is None:
            return None
        async with self._executor.connection() as connection:
            found = await namespaces.read_states(connection, [due.due_namespace_id])
        state = found[0][0] if found else None
        return state if state is not None and namespace.decide_expire(state, due.now_ms) is not None else None


def _decide(state: NamespaceState | TableState | ViewState, now_ms: int | None) -> NamespaceExpired | TableExpired | ViewExpired | None:
    match state:
        case NamespaceState():
            return namespace.decide_expire(state, now_ms)
        case TableState():
            return table.decide_expire(state, now_ms)
        case ViewState():
            return view.decide_expire(state, now_ms)
