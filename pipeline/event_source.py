"""Where the log is read: what a landing needs from a source."""

from typing import Protocol

from .session import DataFrame, SparkSession


class SourceError(Exception):
    """The source cannot be read, or does not have the whole log. The message is for the operator."""


class EventSource(Protocol):
    """The log, or a copy of it. Positions are those of the log, so that tables landed from one source can be continued from another."""

    def last_position_to_land(self, after: int) -> int | None:
        """The last position, or an earlier one, whose event is not of the warehouse that holds the landed tables; None if there is none
        after `after`. All events up to it can be read.

        The commits of the pipeline are events too. They are landed with events of others, so that the log has no gap, but never alone: each
        landing would be followed by another. Raises SourceError.
        """

    def events(self, spark: SparkSession, after: int, to: int, *, range_events: int) -> DataFrame:
        """The rows of `events` after a position, up to `to`, which is at most the last position to land.

        range_events -- events that one task reads, if the source reads ranges of positions.
        """
