"""One stream's events folded: its state, its rows and its claims, whatever kind of thing it is."""

from typing import cast
from uuid import UUID

from domain import namespace, proposal, table, view, warehouse
from domain.claims import Claim
from domain.events import Event, decode
from domain.namespace import NamespaceState
from domain.proposal import ProposalState
from domain.table import TableState
from domain.view import ViewState
from domain.warehouse import WarehouseState
from projections import namespaces, proposals, tables, views, warehouses
from projections.rows import Rows

State = WarehouseState | NamespaceState | TableState | ViewState | ProposalState


class StreamFold:
    """Folds events of one stream, in order, into its state and into rows.

    The encoded event is what is folded, never the request that led to it: inline, rebuild and verify so see the same bytes.
    """

    def __init__(self, stream_id: UUID, project_id: UUID, warehouse_id: UUID, state: State | None = None) -> None:
        self.stream_id = stream_id
        self.project_id = project_id
        self.warehouse_id = warehouse_id
        self.state = state

    def apply(self, rows: Rows, number: int, version: int, event_id: UUID, topic: str, data: bytes) -> State:
        """The state after the event; its rows are added to `rows` under `number`."""
        event = decode(topic, data)
        before, after = self.state, self.evolve(version, event_id, topic, event)
        match after:
            case TableState():
                tables.project(rows, number, cast("TableState | None", before), event, after)
            case ViewState():
                views.project(rows, number, event, after)
            case NamespaceState():
                namespaces.project(rows, number, event, after)
            case WarehouseState():
                warehouses.project(rows, number, event, after)
            case ProposalState():
                proposals.project(rows, number, after)
        return after

    def evolve(self, version: int, event_id: UUID, topic: str, event: Event) -> State:
        """The state after the event, where no rows are wanted."""
        self.state = self._evolved(version, event_id, topic, event)
        return self.state

    def _evolved(self, version: int, event_id: UUID, topic: str, event: Event) -> State:
        match topic.partition(".")[0]:
            case "table":
                return table.evolve(cast("TableState | None", self.state), self.stream_id, version, event_id, self.warehouse_id, event)
            case "view":
                return view.evolve(cast("ViewState | None", self.state), self.stream_id, version, event_id, self.warehouse_id, event)
            case "namespace":
                before = cast("NamespaceState | None", self.state)
                return namespace.evolve(before, self.stream_id, version, event_id, self.warehouse_id, event)
            case "warehouse":
                return warehouse.evolve(self.stream_id, version, event_id, self.project_id, event)
            case "proposal":
                held = cast("ProposalState | None", self.state)
                return proposal.evolve(held, self.stream_id, version, event_id, self.warehouse_id, event)
        raise LookupError(f"no read model for {topic}")


def claims_of(state: State | None) -> frozenset[Claim]:
    """What the stream holds at this state."""
    match state:
        case TableState():
            return table.claims(state)
        case ViewState():
            return view.claims(state)
        case NamespaceState():
            return namespace.claims(state)
        case WarehouseState():
            return warehouse.claims(state)
        case ProposalState():
            return proposal.claims(state)
        case None:
            return frozenset()
