"""The data of events of tasks."""

from typing import Any

from ..domain import events as domain_events
from ..domain.proposal import time_text
from ..domain.recorded import RecordedEvent
from . import event_data as data
from .references import Path


def task_data(event: RecordedEvent, decoded: domain_events.TaskFact, path: Path) -> data.TaskEvent:
    """What consumers read of an event. path -- that of the warehouse."""
    match decoded:
        case domain_events.TaskScheduled():
            happened: dict[str, Any] = {"scheduled_for": time_text(decoded.scheduled_for_ms)}
        case domain_events.TaskDeletionBegun():
            happened = {"attempt": decoded.attempt, "started_at": time_text(decoded.started_at_ms)}
        case domain_events.TaskAttemptFailed():
            happened = {
                "scheduled_for": time_text(decoded.retry_at_ms),
                "attempt": decoded.attempt,
                "started_at": time_text(decoded.started_at_ms),
                "failed_at": time_text(decoded.failed_at_ms),
                "error": decoded.error,
            }
        case _:
            happened = {}
    return data.TaskEvent(
        id=event.stream_id,
        warehouse=data.WarehouseName(id=event.warehouse_id, name=path.names[0]),
        queue=decoded.queue,
        object_kind=decoded.object_kind,
        object_id=decoded.object_id,
        **happened,
    )
