"""Folds the events of one stream into its state and rows."""

from typing import cast
from uuid import UUID

from .. import streams
from ..events import Event, decode
from ..namespace import NamespaceState
from ..project import ProjectState
from ..proposal import ProposalState
from ..streams import State
from ..table import TableState
from ..task import TaskState
from ..view import ViewState
from ..warehouse import WarehouseState
from . import namespaces, projects, proposals, tables, tasks, views, warehouses
from .rows import Rows


class StreamFold:
    """Folds events of one stream, in order.

    It folds the encoded event, never the request, so that commits, `rebuild` and `verify` read the same bytes.
    """

    def __init__(self, stream_id: UUID, project_id: UUID, warehouse_id: UUID, state: State | None = None) -> None:
        self.stream_id = stream_id
        self.project_id = project_id
        self.warehouse_id = warehouse_id
        self.state = state

    def apply(self, rows: Rows, position: int, version: int, event_id: UUID, topic: str, data: bytes) -> State:
        """Returns the state after the event, and adds its rows to `rows` with `position`.

        position -- in the log; before the append, the number of the event in its command, from 1.
        """
        event = decode(topic, data)
        before, after = self.state, self.evolve(version, event_id, event)
        match after:
            case TableState():
                tables.add_rows(rows, position, cast("TableState | None", before), event, after)
            case ViewState():
                views.add_rows(rows, position, cast("ViewState | None", before), event, after)
            case NamespaceState():
                namespaces.add_rows(rows, position, cast("NamespaceState | None", before), event, after)
            case WarehouseState():
                warehouses.add_rows(rows, position, event, after)
            case ProjectState():
                projects.add_rows(rows, position, after)
            case ProposalState():
                proposals.add_rows(rows, position, after)
            case TaskState():
                tasks.add_rows(rows, position, event, after)
        return after

    def evolve(self, version: int, event_id: UUID, event: Event) -> State:
        """Returns the state after the event, without rows."""
        self.state = streams.evolve(self.state, self.stream_id, version, event_id, self.project_id, self.warehouse_id, event)
        return self.state
