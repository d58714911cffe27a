"""Reads ranges of the log as rows of `events`, on executors: straight from Postgres, which alone has the stored states and hashes."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..database.connection import connect
from ..database.connections import Connection
from ..domain.recorded import RecordedEvent
from ..log.follow import BATCH_EVENTS_MAX, read_events
from ..log.head import last_position_outside
from ..publishers.enriched_event import EnrichedEvent
from ..publishers.enricher import EventEnricher
from .event_source import SourceError
from .landed_tables import EVENTS
from .session import DataFrame, SparkSession

PositionRange = tuple[int, int]
"""The events after the first position, up to the second."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log in a database, as an EventSource.

    pipeline_warehouse_id -- of the warehouse that holds the landed tables.
    """

    dsn: str = field(repr=False)
    pipeline_warehouse_id: UUID

    def last_position_to_land(self, after: int) -> int | None:
        return asyncio.run(self._last_position_to_land(after))

    async def _last_position_to_land(self, after: int) -> int | None:
        async with await connect_source(self.dsn) as connection:
            return await last_position_outside(connection, self.pipeline_warehouse_id, after)

    def event_id(self, position: int) -> str | None:
        """The id of the event at a position; None if the log ends before it."""
        return asyncio.run(self._event_id(position))

    async def _event_id(self, position: int) -> str | None:
        async with await connect_source(self.dsn) as connection:
            events = await read_events(connection, position - 1, 1)
        return str(events[0].event_id) if events else None

    def events(self, spark: SparkSession, after: int, to: int, *, range_events: int) -> DataFrame:
        ranges = divided(after, to, range_events)
        rows = spark.sparkContext.parallelize(ranges, len(ranges)).mapPartitions(self.read)
        return spark.createDataFrame(rows, EVENTS.schema, verifySchema=False)

    def read(self, ranges: Iterable[PositionRange]) -> Iterator[tuple[Any, ...]]:
        """The rows of `events` in these ranges. Memory is bounded by one batch of the log. Raises SourceError for a gap."""
        with asyncio.Runner() as runner:
            connection = runner.run(connect_source(self.dsn))
            try:
                enricher = EventEnricher()
                for after, to in ranges:
                    position = after
                    while position < to:
                        enriched = runner.run(_batch(connection, enricher, position, to))
                        yield from (self._row(each) for each in enriched)
                        position = enriched[-1].event.position
            finally:
                runner.run(connection.close())

    def _row(self, enriched: EnrichedEvent) -> tuple[Any, ...]:
        """In the order of EVENTS.columns."""
        event = enriched.event
        return (
            event.position,
            str(event.event_id),
            str(event.stream_id),
            event.version,
            event.topic.partition(".")[0],
            event.topic.rpartition(".")[0],
            event.topic,
            event.recorded_at,
            event.actor,
            str(event.command_id),
            str(event.project_id),
            str(event.warehouse_id),
            event.request_id,
            event.correlation_id,
            None if event.causation_id is None else str(event.causation_id),
            event.traceparent,
            event.context,
            event.warehouse_id == self.pipeline_warehouse_id,
            list(enriched.path),
            enriched.data.to_json().decode(),
            bytearray(event.data),
            bytearray(event.hash),
        )


def divided(after: int, to: int, size: int) -> list[PositionRange]:
    """The range in parts of at most `size` positions."""
    return [(first, min(first + size, to)) for first in range(after, to, size)]


async def connect_source(dsn: str) -> Connection:
    """A connection of the pipeline, also on executors."""
    return await connect(dsn, prepare_threshold=0, application_name="icecore-pipeline")


async def _batch(connection: Connection, enricher: EventEnricher, after: int, to: int) -> Sequence[EnrichedEvent]:
    events: list[RecordedEvent] = await read_events(connection, after, min(BATCH_EVENTS_MAX, to - after))
    expected = range(after + 1, after + 1 + len(events))
    if not events or [event.position for event in events] != [*expected]:
        raise SourceError(f"The log has a gap after position {after}: run icecore verify")
    return (await enricher.enrich(connection, events)).events
