"""The log from copies of its CloudEvents, which may be repeated and out of order: a topic, or files.

What has not been landed is read once, ordered, and kept by Spark until it is landed. A repeated event is dropped, and a missing one ends
what is landed.
"""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import structlog

from .event_source import SourceError
from .landed_tables import EVENTS
from .session import DataFrame, SparkSession

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.pipeline")

PIECE_EVENTS = 10_000
"""Positions of which the driver sees only the first, the last and the count, unless one is missing."""
_PAUSE_SECONDS = 0.5
_LISTED = tuple(name for name in EVENTS.columns if name not in ("position", "event_id"))


class EventCopies(Protocol):
    """A place with copies of events.

    name -- for messages, such as `The topic icecore.events`. gap_advice -- what to do about a missing event. gap_seconds_max -- how long a
    missing event may follow later ones.
    """

    name: str
    gap_advice: ClassVar[str]
    gap_seconds_max: ClassVar[float]

    def read(self, after: int, pending: DataFrame | None) -> DataFrame | None:
        """All events after a position that are there now, with the columns READ_SCHEMA; None if there is nothing new since the last call.

        pending -- the last result, without repeated events. Raises SourceError.
        """

    def read_from_the_beginning(self) -> bool:
        """Makes the next `read` begin with the first event that is there. Returns whether the last one began later."""

    def place(self, origin: str, offset: int | None) -> str:
        """Where an event is, for messages."""


class CloudEventSource:
    """An EventSource of copies."""

    def __init__(self, copies: EventCopies) -> None:
        self._copies = copies
        self._pending: DataFrame | None = None
        self._last: int | None = None
        self._missing: tuple[int, int] | None = None

    def last_position_to_land(self, after: int) -> int | None:
        if self._last is None or self._last <= after:
            self._look(after)
        return self._last if self._last is not None and self._last > after else None

    def events(self, spark: SparkSession, after: int, to: int, *, range_events: int) -> DataFrame:
        assert self._pending is not None
        return self._pending.where(f"position > {after} AND position <= {to}").select(*EVENTS.columns)

    def _look(self, after: int) -> None:
        """Reads what is new. Returns if there are events to be landed, or none at all. Raises SourceError for a missing event."""
        deadline: float | None = None
        while True:
            read = self._copies.read(after, self._pending)
            if read is not None:
                self._keep(read)
            elif self._missing is None:
                return
            if self._pending is None:
                return
            self._last, self._missing = _whole(self._pending.where(f"position > {after}"), after)
            if self._last is not None or self._missing is None:
                return
            if self._copies.read_from_the_beginning():
                continue
            now = time.monotonic()
            deadline = deadline or now + self._copies.gap_seconds_max
            if now >= deadline:
                missing, following = self._missing
                raise SourceError(
                    f"{self._copies.name}: the event at position {missing} is missing, and that at {following} is there."
                    f" {self._copies.gap_advice}"
                )
            time.sleep(_PAUSE_SECONDS)

    def _keep(self, read: DataFrame) -> None:
        """Orders and keeps what was read. Raises SourceError for what cannot be landed."""
        # One exchange: pieces are whole in a partition, and so are all copies of an event.
        copies = read.selectExpr("*", f"(position - 1) div {PIECE_EVENTS} as piece").repartition("piece").groupBy("piece", "position")
        kept = [f"first({name}) as {name}" for name in (*_LISTED, "origin", "origin_offset", "problem")]
        pending = copies.agg(*map(_expression, ("min(event_id) as event_id", "max(event_id) as other_id", *kept))).persist()
        before, self._pending = self._pending, pending
        found = pending.where("problem is not null or event_id <> other_id").orderBy("position").head()
        if before is not None:
            before.unpersist()
        if found is not None and found.problem is not None:
            raise SourceError(f"{self._copies.name}: {self._copies.place(found.origin, found.origin_offset)}: {found.problem}")
        if found is not None:
            raise SourceError(
                f"{self._copies.name}: there are two different events at position {found.position}, {found.event_id} and {found.other_id}:"
                " they are of two logs"
            )


def _whole(events: DataFrame, after: int) -> tuple[int | None, tuple[int, int] | None]:
    """The last position to land before the first gap after `after`, None if there is none; and the gap: the missing position, and the next
    one.
    """
    summed = ("min(position) as lowest", "max(position) as highest", "count(*) as rows", "max(if(of_pipeline, null, position)) as to_land")
    pieces = events.groupBy("piece").agg(*map(_expression, summed)).collect()
    to_land: int | None = None
    for piece in sorted(pieces, key=lambda each: each.lowest):
        if (piece.lowest, piece.rows) != (after + 1, piece.highest - after):
            rows = events.where(f"piece = {piece.piece}").select("position", "of_pipeline").orderBy("position").collect()
            return _before_gap(rows, after, to_land)
        after, to_land = piece.highest, piece.to_land or to_land
    return to_land, None


def _before_gap(rows: Sequence[Any], after: int, to_land: int | None) -> tuple[int | None, tuple[int, int]]:
    for row in rows:
        if row.position != after + 1:
            return to_land, (after + 1, row.position)
        after, to_land = row.position, to_land if row.of_pipeline else row.position
    raise AssertionError("a position is missing between these rows")


def _expression(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)
