"""Tasks: the expiry of a soft-deleted object, and the purge of a table's files. Decides commands on them and folds their events.

What is to be done, and whether it has ended, is in the stream of the object: a drop, an expiry, an undrop or a purge. A task's own stream
has the requests to control it, and its attempts. Its id is that of the event that made it necessary; most tasks have no event of their own.
"""

from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from .errors import ExpirationFixed, InvalidQueueConfig, PurgeBegun, QueueNotFound, TaskFinished
from .events import Event, TaskAttemptFailed, TaskDeletionBegun, TaskScheduled, TaskStopped

EXPIRATION = "tabular_expiration"
PURGE = "tabular_purge"
TASK_LOG_CLEANUP = "task_log_cleanup"
WAREHOUSE_QUEUES = (EXPIRATION, PURGE)
"""Lakekeeper's names."""
QUEUES = (*WAREHOUSE_QUEUES, TASK_LOG_CLEANUP)
TASKS_MAX = 100
"""How many tasks one command controls."""
HEARTBEAT_SECONDS_DEFAULT = 3_600
HEARTBEAT_SECONDS_MIN = 60
HEARTBEAT_SECONDS_MAX = 7 * 24 * 3_600
SCHEDULED_DAYS_MAX = 365
"""How far away a purge can be scheduled. A later moment is more likely in another unit."""
_DAY_MS = 24 * 3_600 * 1_000

Action = Literal["stop", "cancel", "run-now", "run-at"]
TaskStatus = Literal["RUNNING", "SCHEDULED", "STOPPING", "CANCELLED", "SUCCESS", "FAILED"]
TASK_STATUSES: tuple[TaskStatus, ...] = ("RUNNING", "SCHEDULED", "STOPPING", "CANCELLED", "SUCCESS", "FAILED")
"""Lakekeeper's. A task never fails for good, so none is FAILED; its attempts are."""


@dataclass(frozen=True, slots=True)
class ControlTasks:
    """Does the same to several tasks, all or none. scheduled_for_ms -- of `run-at`."""

    action: Action
    task_ids: tuple[UUID, ...]
    scheduled_for_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TaskOf:
    """A task as the stream of its object has it. status -- `scheduled`, `success` or `cancelled`."""

    id: UUID
    queue: str
    kind: str
    object_id: UUID
    status: str


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task at one version of its own stream.

    scheduled_for_ms -- the next attempt, if it was scheduled or an attempt failed. begun -- whether files may have been deleted.
    last_failed_attempt -- the last one that is recorded; 0: none.
    """

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    scheduled_for_ms: int | None = None
    begun: bool = False
    last_failed_attempt: int = 0


def evolve(state: TaskState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event) -> TaskState:
    state = TaskState(stream_id, version, event_id, warehouse_id) if state is None else replace(state, version=version, event_id=event_id)
    match event:
        case TaskScheduled():
            return replace(state, scheduled_for_ms=event.scheduled_for_ms)
        case TaskStopped():
            return state
        case TaskDeletionBegun():
            return replace(state, begun=True)
        case TaskAttemptFailed():
            return replace(state, scheduled_for_ms=event.retry_at_ms, last_failed_attempt=event.attempt)
    raise AssertionError(f"{type(event).__name__} is not an event of a task")


def check_control(task: TaskOf, state: TaskState | None, action: Action) -> None:
    """Raises TaskFinished, ExpirationFixed for an expiry, and PurgeBegun if a purge is to be cancelled that may have deleted files.

    state -- of the task's own stream; None: it has no event.
    """
    if task.status != "scheduled":
        ended = "was cancelled" if task.status == "cancelled" else "has succeeded"
        raise TaskFinished(f"Task {task.id} {ended}")
    if task.queue == EXPIRATION:
        raise ExpirationFixed(
            f"Task {task.id} is the expiry of {task.kind} {task.object_id}, whose time is set by the drop: undrop it instead "
            "(POST /management/v1/warehouse/<id>/deleted-tabulars/undrop, or icecore undrop)"
        )
    if action == "cancel" and state is not None and state.begun:
        raise PurgeBegun(f"Task {task.id} has begun to delete the files of {task.kind} {task.object_id} and cannot be cancelled")


def decide_schedule(task: TaskOf, scheduled_for_ms: int) -> TaskScheduled:
    """The next attempt begins then. `check_control` comes first."""
    return TaskScheduled(task.queue, task.kind, task.object_id, scheduled_for_ms)


def decide_failure(
    task: TaskOf, state: TaskState | None, *, attempt: int, started_at_ms: int, failed_at_ms: int, retry_at_ms: int, error: str
) -> TaskAttemptFailed:
    """An attempt failed. The next one does not begin before the moment that was requested meanwhile."""
    requested_ms = None if state is None else state.scheduled_for_ms
    retry_at_ms = retry_at_ms if requested_ms is None else max(retry_at_ms, requested_ms)
    return TaskAttemptFailed(task.queue, task.kind, task.object_id, attempt, started_at_ms, failed_at_ms, retry_at_ms, error)


def decide_begin_deletion(task: TaskOf, *, attempt: int, started_at_ms: int) -> TaskDeletionBegun:
    """A purge deletes files from here on."""
    return TaskDeletionBegun(task.queue, task.kind, task.object_id, attempt, started_at_ms)


def is_far(scheduled_for_ms: int, now_ms: int) -> bool:
    """Whether a moment is beyond SCHEDULED_DAYS_MAX."""
    return scheduled_for_ms > now_ms + SCHEDULED_DAYS_MAX * _DAY_MS


def decide_stop(task: TaskOf) -> TaskStopped:
    """Ends the current attempt."""
    return TaskStopped(task.queue, task.kind, task.object_id)


def is_recorded(attempt: int) -> bool:
    """Whether the failure of an attempt is recorded in the log: of 1, 2, 4, 8 and so on, so that their number grows with the logarithm."""
    return attempt & (attempt - 1) == 0


def check_queue_config(queue: str, heartbeat_seconds_max: int | None) -> None:
    """Raises QueueNotFound, and InvalidQueueConfig for a setting without an effect or out of bounds."""
    if queue not in WAREHOUSE_QUEUES:
        raise QueueNotFound(f"Queue does not exist: {queue[:64]} (a warehouse has {', '.join(WAREHOUSE_QUEUES)})")
    if heartbeat_seconds_max is None:
        return
    if queue == EXPIRATION:
        raise InvalidQueueConfig(
            "Invalid max-seconds-since-last-heartbeat: has no effect in the queue tabular_expiration, because an expiry is one event"
        )
    if not HEARTBEAT_SECONDS_MIN <= heartbeat_seconds_max <= HEARTBEAT_SECONDS_MAX:
        raise InvalidQueueConfig(
            f"Invalid max-seconds-since-last-heartbeat: must be between {HEARTBEAT_SECONDS_MIN} and {HEARTBEAT_SECONDS_MAX}"
        )
