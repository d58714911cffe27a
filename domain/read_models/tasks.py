"""Rows of tasks' own streams: one for each version."""

from ..events import Event, TaskAttemptFailed, TaskDeletionBegun
from ..task import TaskState
from .definitions import TaskVersionRow
from .rows import Rows

_TOPIC_PREFIX = "task."


def add_rows(rows: Rows, position: int, event: Event, after: TaskState) -> None:
    """The row that the event at `position` adds."""
    failure = event if isinstance(event, TaskAttemptFailed) else None
    started = event if isinstance(event, TaskAttemptFailed | TaskDeletionBegun) else None
    rows.task_versions.append(
        TaskVersionRow(
            task_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            warehouse_id=after.warehouse_id,
            event=event.TOPIC.removeprefix(_TOPIC_PREFIX).rpartition(".")[0],
            scheduled_for_ms=after.scheduled_for_ms,
            begun=after.begun,
            attempts=after.last_failed_attempt,
            started_at_ms=None if started is None else started.started_at_ms,
            failed_at_ms=None if failure is None else failure.failed_at_ms,
            error=None if failure is None else failure.error,
        )
    )
