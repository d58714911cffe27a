"""ControlTasks: stops, cancels or schedules tasks, all or none."""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.errors import BadRequest, NoSuchTask
from ...domain.events import Event
from ...domain.table import decide_cancel_purge
from ...domain.task import SCHEDULED_DAYS_MAX, ControlTasks, TaskOf, TaskState, check_control, decide_schedule, decide_stop, is_far
from ...projections import task_runs, tasks
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from ..execution.resolver import OutdatedRead


async def control_tasks(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: ControlTasks) -> CommandResponse:
    """204. A cancellation and the beginning of a deletion are decided by the log: the first one wins.

    Raises NoSuchTask, TaskFinished, ExpirationFixed for expiries, PurgeBegun for a purge that may have deleted files, and BadRequest for a
    moment that is too far away.
    """
    async with executor.large_documents.reservation() as reservation:
        return await executor.execute(_ControlHandler(context, warehouse, command, executor, reservation))


@dataclass(slots=True, eq=False)
class _ControlHandler(CommandHandler):
    # Purges go on in an inactive warehouse.
    allows_inactive_warehouse: ClassVar[bool] = True

    command: ControlTasks
    executor: CommandExecutor
    reservation: DocumentReservation
    found: list[TaskOf] = field(default_factory=list)
    missing: list[UUID] = field(default_factory=list)

    async def resolve(self) -> CommandTargets:
        async with self.executor.connection() as connection:
            found = await tasks.find(connection, self.warehouse.id, self.command.task_ids)
        self.missing = [task_id for task_id in self.command.task_ids if task_id not in found]
        self.found = [found[task_id] for task_id in self.command.task_ids if task_id in found]
        # What is not there is not revealed to those who may not look for it.
        of_warehouse = [Resource("warehouse", self.warehouse.id)] if self.missing or not self.found else []
        return CommandTargets(other_resources=[*of_warehouse, *(_resource(task) for task in self.found)])

    async def prepare(self) -> None:
        for task_id in self.missing:
            raise no_such_task(task_id)

    async def decide(self) -> Decision:
        command, now_ms, append_request = self.command, self.executor.now_ms(), AppendRequest(self.context)
        scheduled_for_ms = now_ms if command.scheduled_for_ms is None else command.scheduled_for_ms
        if is_far(scheduled_for_ms, now_ms):
            raise BadRequest(f"Invalid scheduled-for: more than {SCHEDULED_DAYS_MAX} days from now")
        async with self.executor.connection() as connection:
            states = await tasks.read_states(connection, command.task_ids)
            running = await task_runs.running(connection) if command.action == "stop" else {}
        for task in self.found:
            state, generation = states.get(task.id, (None, None))
            check_control(task, state, command.action)
            match command.action:
                case "cancel":
                    await self._cancel(append_request, task, state)
                case "stop" if task.id in running:
                    _add(append_request, task, self.warehouse.id, state, decide_stop(task), generation)
                case "run-now" | "run-at":
                    _add(append_request, task, self.warehouse.id, state, decide_schedule(task, scheduled_for_ms), generation)
        # Approval hooks do not review it: they have reviewed the drop.
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None), needs_review=False)

    async def _cancel(self, append_request: AppendRequest, task: TaskOf, state: TaskState | None) -> None:
        read = await self.executor.resolver.table_by_id(task.object_id).read(self.reservation)
        event = None if read is None else decide_cancel_purge(read[0])
        if read is None or event is None:
            # It ended since the task was looked up.
            raise OutdatedRead
        append_request.add(task.object_id, self.warehouse.id, read[0], [event], read[1])
        # Not if the deletion of files begins before.
        append_request.depend_on_event(task.id, None if state is None else state.event_id)


def _add(
    append_request: AppendRequest, task: TaskOf, warehouse_id: UUID, state: TaskState | None, event: Event, generation: int | None
) -> None:
    """Adds an event of the task, to be appended only if the task has not ended by then: its object's last event began it."""
    append_request.add(task.id, warehouse_id, state, [event], generation)
    append_request.depend_on_event(task.object_id, task.id)


def no_such_task(task_id: UUID) -> NoSuchTask:
    """The error for an id that no task of the warehouse or project has."""
    return NoSuchTask(f"Task does not exist: {task_id}")


def _resource(task: TaskOf) -> Resource:
    return Resource("view" if task.kind == "view" else "table", task.object_id)
