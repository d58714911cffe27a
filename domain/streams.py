"""The state of a stream of any kind: folds its events and returns its claims."""

from collections.abc import Sequence
from typing import NamedTuple, cast
from uuid import UUID

from . import maintenance, namespace, project, proposal, table, task, view, warehouse
from .claims import Claim
from .events import Event
from .maintenance import MaintenanceState
from .namespace import NamespaceState
from .project import ProjectState
from .proposal import ProposalState
from .table import TableState
from .task import TaskState
from .view import ViewState
from .warehouse import WarehouseState

State = ProjectState | WarehouseState | NamespaceState | TableState | ViewState | ProposalState | TaskState | MaintenanceState


class StreamChange(NamedTuple):
    """The change that a command makes to one stream."""

    before: State | None
    events: Sequence[Event]
    after: State


def evolve(
    before: State | None, stream_id: UUID, version: int, event_id: UUID, project_id: UUID, warehouse_id: UUID, event: Event
) -> State:
    """The state after an event that follows `before` (None: the stream's first)."""
    match event.TOPIC.partition(".")[0]:
        case "table":
            return table.evolve(cast("TableState | None", before), stream_id, version, event_id, warehouse_id, event)
        case "view":
            return view.evolve(cast("ViewState | None", before), stream_id, version, event_id, warehouse_id, event)
        case "namespace":
            return namespace.evolve(cast("NamespaceState | None", before), stream_id, version, event_id, warehouse_id, event)
        case "warehouse":
            return warehouse.evolve(cast("WarehouseState | None", before), stream_id, version, event_id, project_id, event)
        case "project":
            return project.evolve(cast("ProjectState | None", before), stream_id, version, event_id, event)
        case "proposal":
            return proposal.evolve(cast("ProposalState | None", before), stream_id, version, event_id, warehouse_id, event)
        case "task":
            return task.evolve(cast("TaskState | None", before), stream_id, version, event_id, warehouse_id, event)
        case "maintenance":
            return maintenance.evolve(cast("MaintenanceState | None", before), stream_id, version, event_id, warehouse_id, event)
    raise LookupError(f"{event.TOPIC} belongs to no kind of stream")


def claims_of(state: State | None) -> frozenset[Claim]:
    """The claims that the stream holds in this state."""
    match state:
        case TableState():
            return table.claims(state)
        case ViewState():
            return view.claims(state)
        case NamespaceState():
            return namespace.claims(state)
        case WarehouseState():
            return warehouse.claims(state)
        case ProjectState():
            return project.claims(state)
        case ProposalState():
            return proposal.claims(state)
        case TaskState() | MaintenanceState() | None:
            return frozenset()
