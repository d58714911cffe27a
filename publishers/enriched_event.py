"""Enriched events: events with the data that consumers read."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from ..domain.identifiers import dotted_key
from ..domain.recorded import RecordedEvent
from . import event_data as data

Each = TypeVar("Each")


@dataclass(slots=True)
class EnrichedEvent:
    """An event with its data for consumers.

    path -- the names of the object as of the event, outermost first: the warehouse, the namespaces, the object itself. A proposal, task or
    maintenance run has its warehouse's name and its own id, a project none.
    """

    event: RecordedEvent
    path: tuple[str, ...]
    data: data.EventData
    _namespace_key: str | None = None

    @property
    def subject(self) -> str:
        """The dotted name below the warehouse; for a warehouse its own name; for a project, proposal, task or maintenance run its id."""
        return ".".join(self.path[1:] or self.path) or str(self.event.stream_id)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The levels of the object's namespace, or of the namespace itself."""
        kind = self.event.topic.partition(".")[0]
        return self.path[1:-1] if kind in ("table", "view", "proposal", "task", "maintenance") else self.path[1:]

    @property
    def namespace_key(self) -> str:
        """The namespace as filters compare it; computed once for all subscribers."""
        if self._namespace_key is None:
            self._namespace_key = dotted_key(".".join(self.namespace))
        return self._namespace_key


@dataclass(frozen=True, slots=True)
class EnrichedBatch(Generic[Each]):
    """The enriched ones of the first `count` events.

    bytes_read -- the size of the documents and snapshots that were read for them.
    """

    events: list[Each]
    count: int
    bytes_read: int
