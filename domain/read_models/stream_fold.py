"""One stream's events folded into its state and into rows."""

from typing import cast
from uuid import UUID

from domain import streams
from domain.events import Event, decode
from domain.namespace import NamespaceState
from domain.proposal import ProposalState
from domain.read_models import namespaces, proposals, tables, views, warehouses
from domain.read_models.rows import Rows
from domain.streams import State
from domain.table import TableState
from domain.view import ViewState
from domain.warehouse import WarehouseState


class StreamFold:
    """Folds events of one stream, in order.

    The encoded event is what is folded, never the request that led to it: inline, rebuild and verify so see the same bytes.
    """

    def __init__(self, stream_id: UUID, project_id: UUID, warehouse_id: UUID, state: State | None = None) -> None:
        self.stream_id = stream_id
        self.project_id = project_id
        self.warehouse_id = warehouse_id
        self.state = state

    def apply(self, rows: Rows, position: int, version: int, event_id: UUID, topic: str, data: bytes) -> State:
        """The state after the event; its rows are added to `rows` under `position`."""
        event = decode(topic, data)
        before, after = self.state, self.evolve(version, event_id, event)
        match after:
            case TableState():
                tables.project(rows, position, cast("TableState | None", before), event, after)
            case ViewState():
                views.project(rows, position, event, after)
            case NamespaceState():
                namespaces.project(rows, position, event, after)
            case WarehouseState():
                warehouses.project(rows, position, event, after)
            case ProposalState():
                proposals.project(rows, position, after)
        return after

    def evolve(self, version: int, event_id: UUID, event: Event) -> State:
        """The state after the event, where no rows are wanted."""
        self.state = streams.evolve(self.state, self.stream_id, version, event_id, self.project_id, self.warehouse_id, event)
        return self.state
