"""The interface of sinks: a sink accepts events in order and knows its position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol
from uuid import UUID

from .cloud_events import OutgoingEvent


class SinkError(Exception):
    """Publishing failed; the sink is opened again after a pause. The message is for the operator.

    position -- of the event that is the cause, if one is. acknowledged -- the position of the last event of the batch that certainly
    arrived, for sinks that do not store it. retry_after_seconds -- the minimal pause that the other side requests.
    """

    position: int | None = None
    acknowledged: int | None = None
    retry_after_seconds: float = 0.0


class SinkMovedError(SinkError):
    """Another process has published to the sink meanwhile. The leader opens it again and reads its position."""


class SinkRefusedError(SinkError):
    """The sink refuses this event permanently: the operator must resolve the cause or skip the event.

    among -- if the sink does not report which event it refuses: the number of candidates, of which `event` is the first.
    """

    def __init__(self, event: OutgoingEvent, reason: str, *, among: int = 1) -> None:
        if among == 1:
            super().__init__(f"the sink rejected the event at position {event.position} ({event.topic}): {reason}")
            self.position = event.position
        else:
            super().__init__(f"the sink rejected one of {among} events from position {event.position} on: {reason}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last position published to a sink, and the id of its event, which identifies the log (None: nothing is published yet)."""

    position: int
    event_id: UUID | None


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """The position that the sink itself stores; `checkpoint` is None if it stores none.

    broker_sequence -- the broker's sequence number of the last message; it decreases only if the broker loses acknowledged messages.
    """

    checkpoint: Checkpoint | None
    broker_sequence: int


class Sink(Protocol):
    """A connection to a sink, which must not be used after an error.

    STORES_POSITION -- it stores its position itself, so that the row in Postgres may lag. BATCH_EVENTS_MAX -- limit on a call of `publish`.
    """

    STORES_POSITION: ClassVar[bool]
    BATCH_EVENTS_MAX: ClassVar[int]

    async def open(self) -> SinkPosition:
        """Connects, fences off earlier leaders, and returns the sink's position. Raises SinkError."""

    async def publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        """Publishes the events in order. Returns the broker's new sequence number once all of them are stored.

        live -- for a replay: the sink's live checkpoint, which every message repeats. None: each event is its own checkpoint.
        Raises SinkError; then any number of the first events may have been published.
        """

    async def close(self) -> None:
        """Closes the connection at once, whatever the state of the other side."""
