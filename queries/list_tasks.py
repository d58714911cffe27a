"""Lists and loads tasks, with the attempts that run now."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..database.connections import Connection
from ..domain.errors import NoSuchTask
from ..domain.task import PURGE, TaskStatus
from ..log.positions import position_at
from ..projections import task_runs, tasks, warehouses
from ..projections.task_runs import Run
from ..projections.tasks import Attempt, Selection, Task
from .executor import QueryExecutor
from .results import Page

_MOMENT = timedelta(microseconds=1)
"""The resolution of times in the log."""
_EARLIEST = datetime.min.replace(tzinfo=UTC) + _MOMENT
_ENDED: dict[str, TaskStatus] = {"cancelled": "CANCELLED", "success": "SUCCESS"}

__all__ = ["Attempt", "FoundTask", "TaskFilter", "list_tasks", "load_task"]


class TaskFilter(NamedTuple):
    """objects -- kinds and ids; None: all. created_after, created_before -- inclusive."""

    queues: Sequence[str]
    statuses: Sequence[TaskStatus]
    objects: Sequence[tuple[str, UUID]] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class FoundTask(NamedTuple):
    """A task. run -- its attempt that runs; None: none does."""

    task: Task
    run: Run | None

    @property
    def status(self) -> TaskStatus:
        if self.task.status in _ENDED:
            return _ENDED[self.task.status]
        if self.run is None:
            return "SCHEDULED"
        return "STOPPING" if self.run.stopping else "RUNNING"

    @property
    def attempt(self) -> int:
        """The number of the last attempt that is known: that which runs or succeeded, or the last recorded one that failed."""
        if self.run is not None:
            return self.run.attempt
        return self.task.last_failed_attempt + (self.status == "SUCCESS")

    @property
    def scheduled_for(self) -> datetime:
        milliseconds = self.task.scheduled_for_ms if self.task.next_attempt_ms is None else self.task.next_attempt_ms
        return self.task.created_at if milliseconds is None else datetime.fromtimestamp(milliseconds / 1_000, UTC)

    @property
    def started_at(self) -> datetime | None:
        """Of the last attempt that is known."""
        if self.run is not None:
            return self.run.started_at
        return None if self.task.started_at_ms is None else datetime.fromtimestamp(self.task.started_at_ms / 1_000, UTC)


async def list_tasks(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, wanted: TaskFilter, after: int | None, size: int
) -> Page[FoundTask]:
    """At most `size` tasks of a warehouse, active or not, newest first, older than the position `after`. Raises NoSuchWarehouse."""
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
        await queries.authorize(context, Resource("warehouse", warehouse_id))
        running = await task_runs.running(connection)
        selection = await _selection(connection, wanted, running, after)
        found = await tasks.read_page(connection, warehouse_id, selection, size + 1)
    page = [FoundTask(task, running.get(task.task_id)) for task in found[:size]]
    return Page(page, str(page[-1].task.from_position) if len(found) > size else None, 0)


async def load_task(
    queries: QueryExecutor, context: RequestContext, warehouse_id: UUID, task_id: UUID, attempts_max: int
) -> tuple[FoundTask, list[Attempt]]:
    """A task, and its last recorded attempts that failed, newest first. Raises NoSuchWarehouse and NoSuchTask."""
    async with queries.backends.connection() as connection:
        await warehouses.find(connection, context.project_id, warehouse_id)
        task = await tasks.read_task(connection, warehouse_id, task_id)
        if task is None:
            # What is not there is not revealed to those who may not look for it.
            await queries.authorize(context, Resource("warehouse", warehouse_id))
            raise NoSuchTask(f"Task does not exist: {task_id}")
        await queries.authorize(context, Resource("view" if task.kind == "view" else "table", task.object_id))
        run = (await task_runs.running(connection)).get(task_id)
        attempts = await tasks.read_attempts(connection, task_id, attempts_max) if attempts_max else []
    return FoundTask(task, run), attempts


async def _selection(connection: Connection, wanted: TaskFilter, running: dict[UUID, Run], after: int | None) -> Selection:
    statuses = [status for status, of_task in (("scheduled", "SCHEDULED"), ("cancelled", "CANCELLED"), ("success", "SUCCESS"))
                if of_task in wanted.statuses]  # fmt: skip
    # Those that run are scheduled in the log. They are a few, and are looked up by their ids.
    chosen = [task_id for task_id, run in running.items() if ("STOPPING" if run.stopping else "RUNNING") in wanted.statuses]
    selection = Selection(wanted.queues, statuses, wanted.objects, also=chosen if PURGE in wanted.queues else (), without=[*running])
    if after is not None:
        selection = selection._replace(before=after)
    if wanted.created_before is not None and (last := await position_at(connection, wanted.created_before)) is not None:
        selection = selection._replace(before=min(selection.before, last + 1))
    if wanted.created_after is not None:
        # None: a moment to come, before which nothing was created.
        first = await position_at(connection, max(wanted.created_after, _EARLIEST) - _MOMENT)
        selection = selection._replace(after=selection.before if first is None else first)
    return selection
