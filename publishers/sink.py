"""The interface of sinks: a sink accepts events in order and knows its position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol
from uuid import UUID

from .cloud_events import Outgoing


class SinkError(Exception):
    """The sink cannot be told for now; it is opened and tried again after a pause. The message is for the operator.

    position -- of the event that stands in the way, where it is one. acknowledged -- the position of the last event of the batch that
    arrived for certain, for sinks that cannot say so themselves. again_after_seconds -- what the other side asks for, at least.
    """

    position: int | None = None
    acknowledged: int | None = None
    again_after_seconds: float = 0.0


class SinkMovedError(SinkError):
    """Somebody else told the sink something meanwhile: who leads by right opens it again and sees how far it is."""


class SinkRefusedError(SinkError):
    """The sink does not take this event, and will not by itself: the operator mends it, or has the event skipped.

    among -- where the sink does not say which, it is one of so many, of which `event` is the first.
    """

    def __init__(self, event: Outgoing, reason: str, *, among: int = 1) -> None:
        if among == 1:
            super().__init__(f"position {event.position} ({event.topic}) is refused: {reason}")
            self.position = event.position
        else:
            super().__init__(f"one of {among} events from position {event.position} on is refused: {reason}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a sink was told: the position, and that position's event, which says of which log it is (None: of none yet)."""

    position: int
    event_id: UUID | None


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """What the sink itself says of how far it is; `checkpoint` None where it holds nothing that says so.

    mark -- the sink's own number of the last thing it holds; it never falls unless the sink loses what it acknowledged.
    """

    checkpoint: Checkpoint | None
    broker_sequence: int


class Sink(Protocol):
    """One connection to one place; of no more use after an error.

    REMEMBERS -- it says itself how far it is, so that the row in Postgres may lag. BATCH_EVENTS_MAX -- given to `publish` at most.
    """

    REMEMBERS: ClassVar[bool]
    BATCH_EVENTS_MAX: ClassVar[int]

    async def open(self) -> SinkPosition:
        """Connects, shuts out whoever led before, and says how far the sink is. Raises SinkError."""

    async def publish(self, events: Sequence[Outgoing], live: Checkpoint | None) -> int:
        """Tells the events in order and answers the new mark, once all of them are kept.

        live -- for a replay: how far the sink is without it, which every message repeats. None: each event is its own checkpoint.
        Raises SinkError; then any number of the first events may have been told.
        """

    async def close(self) -> None:
        """Lets go, at once, whatever state the other side is in."""
