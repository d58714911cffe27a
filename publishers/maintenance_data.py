"""The data of events of maintenance."""

from ..domain import events as domain_events
from ..domain.recorded import RecordedEvent
from . import event_data as data
from .references import Path


def maintenance_data(event: RecordedEvent, decoded: domain_events.MaintenanceEvent, path: Path) -> data.MaintenanceEvent:
    """What consumers read of an event. path -- that of the warehouse."""
    run = data.MaintenanceEvent(
        id=event.stream_id,
        warehouse=data.WarehouseName(id=event.warehouse_id, name=path.names[0]),
        table_id=decoded.table_id,
        procedure=decoded.procedure,
    )
    if isinstance(decoded, domain_events.MaintenancePlanned):
        run.reason, run.estimate, run.shadow = decoded.reason, decoded.estimate, decoded.shadow
    else:
        run.outcome, run.measured, run.attempts = decoded.outcome, decoded.measured, decoded.attempts
        run.duration_ms, run.error = decoded.duration_ms, decoded.error
    return run
