"""The data of events of proposals."""

from uuid import UUID

from ..domain.proposal import time_text
from ..domain.recorded import RecordedEvent
from . import event_data as data
from .references import Path, References


def proposal_data(event: RecordedEvent, path: Path, found: References) -> data.ProposalEvent:
    """What consumers read of an event. path -- that of the warehouse."""
    state = found.proposals[event.stream_id, event.version]
    return data.ProposalEvent(
        id=state.id,
        warehouse=data.WarehouseName(id=event.warehouse_id, name=path.names[0]),
        status=state.status,
        operation=state.operation,
        objects=[data.ProposalObject(kind=each["kind"], id=UUID(each["id"]), name=each["name"]) for each in state.objects],
        hook=state.hook,
        reason=state.reason,
        proposed_by=state.actor,
        opened_at=time_text(state.opened_at_ms),
        expires_at=time_text(state.expires_at_ms),
        decided_by=state.decided_by,
        decision_reason=state.decision_reason,
    )
