"""Events with the data that consumers read."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from ..domain.identifiers import dotted_key
from ..domain.recorded import RecordedEvent
from . import event_data as data

Each = TypeVar("Each")


@dataclass(slots=True)
class EnrichedEvent:
    """An event as it is told.

    path -- the names that led to the thing as of the event, outermost first: the warehouse, namespaces, the thing itself.
    """

    event: RecordedEvent
    path: tuple[str, ...]
    data: data.EventData
    _namespace_key: str | None = None

    @property
    def subject(self) -> str:
        """The dotted name below the warehouse; the warehouse's own name for a warehouse."""
        return ".".join(self.path[1:] or self.path) or str(self.event.stream_id)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The levels of the namespace it is, or lies in."""
        noun = self.event.topic.partition(".")[0]
        return self.path[1:-1] if noun in ("table", "view", "proposal") else self.path[1:]

    @property
    def namespace_key(self) -> str:
        """The same as filters match it; made once for all that follow the log."""
        if self._namespace_key is None:
            self._namespace_key = dotted_key(".".join(self.namespace))
        return self._namespace_key


@dataclass(frozen=True, slots=True)
class EnrichedBatch(Generic[Each]):
    """What was made of the first `count` of some events.

    bytes_read -- of the documents and snapshots that they were made from.
    """

    events: list[Each]
    count: int
    bytes_read: int
