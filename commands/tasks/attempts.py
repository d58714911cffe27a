"""What the leader of a job records of the attempts of tasks, in the streams of the tasks."""

from dataclasses import dataclass
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ...access.request_context import Principal, RequestContext
from ...access.warehouse import Warehouse
from ...domain.errors import CatalogError, ServiceUnavailable
from ...domain.task import TaskOf, decide_begin_deletion, decide_failure, is_recorded
from ...projections import tables, tasks, warehouses
from ..execution.append_request import AppendRequest
from ..execution.executor import CommandExecutor

_log = structlog.get_logger("icecore.tasks")

# A control request for the task may come between.
_TRIES_MAX = 10


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """pause_seconds -- until the next attempt."""

    task: TaskOf
    warehouse_id: UUID
    attempt: int
    started_at_ms: int
    pause_seconds: float
    error: str


async def record_failure(executor: CommandExecutor, principal: Principal, failed: FailedAttempt) -> None:
    """Appends TaskAttemptFailed for the attempts that are recorded, unless the task has ended. What cannot be recorded is logged: the task
    is retried all the same.
    """
    if not is_recorded(failed.attempt):
        return
    try:
        await _record_failure(executor, principal, failed)
    except CatalogError as error:
        _log.warning("task_attempt_not_recorded", task_id=str(failed.task.id), attempt=failed.attempt, error=error.message)


async def _record_failure(executor: CommandExecutor, principal: Principal, failed: FailedAttempt) -> None:
    failed_at_ms = executor.now_ms()
    for _ in range(_TRIES_MAX):
        async with executor.connection() as connection:
            warehouse = await warehouses.read_of_any_project(connection, failed.warehouse_id)
            task = (await tasks.find(connection, failed.warehouse_id, [failed.task.id])).get(failed.task.id)
            found = await tasks.read_states(connection, [failed.task.id])
        if task is None or task.status != "scheduled":
            # It was cancelled, or has succeeded in another process.
            return
        assert warehouse is not None, "a task's warehouse is in the log before it"
        state, generation = found.get(failed.task.id, (None, None))
        event = decide_failure(
            failed.task,
            state,
            attempt=failed.attempt,
            started_at_ms=failed.started_at_ms,
            failed_at_ms=failed_at_ms,
            retry_at_ms=failed_at_ms + int(failed.pause_seconds * 1_000),
            error=failed.error,
        )
        append_request = AppendRequest(_context(principal, warehouse.project_id, failed.task, "recordTaskAttempt"))
        append_request.add(failed.task.id, failed.warehouse_id, state, [event], generation)
        # Not if the task ends before: its object's last event began it.
        append_request.depend_on_event(failed.task.object_id, failed.task.id)
        if (await executor.committer.submit(append_request)).outcome == "appended":
            return
    raise ServiceUnavailable("Other requests kept changing the same task; it is tried again")


async def begin_deletion(
    executor: CommandExecutor, principal: Principal, task: TaskOf, warehouse: Warehouse, attempt: int, started_at_ms: int
) -> bool:
    """Appends TaskDeletionBegun, if no attempt before has. Returns False if the purge was cancelled or is scheduled for later.

    The append depends on the newest event of the table, which is the one that made the purge necessary, unless it was cancelled.
    """
    for _ in range(_TRIES_MAX):
        async with executor.connection() as connection:
            purging = await tables.is_purging(connection, task.object_id)
            found = await tasks.read_states(connection, [task.id])
        state, generation = found.get(task.id, (None, None))
        if not purging:
            return False
        if state is not None and state.begun:
            return True
        if state is not None and (state.scheduled_for_ms or 0) > executor.now_ms():
            return False
        append_request = AppendRequest(_context(principal, warehouse.project_id, task, "purgeTable"))
        event = decide_begin_deletion(task, attempt=attempt, started_at_ms=started_at_ms)
        append_request.add(task.id, warehouse.id, state, [event], generation)
        append_request.depend_on_event(task.object_id, task.id)
        if (await executor.committer.submit(append_request)).outcome == "appended":
            return True
    raise ServiceUnavailable("Other requests kept changing the same task; it is tried again")


def _context(principal: Principal, project_id: UUID, task: TaskOf, operation: str) -> RequestContext:
    return RequestContext(str(uuid7()), project_id, principal, operation, causation_id=task.id)
