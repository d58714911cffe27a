"""Events for HTTP clients: limited batches, waiting for new events, and one event by its id."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from ..database.connections import Connection, ConnectionPool
from ..domain.errors import BadRequest, TooManyRequests
from ..domain.recorded import RecordedEvent
from ..domain.scope_filter import FilterError
from ..log.follow import read_events
from ..log.head import log_head
from ..log.listener import LogListener
from ..log.positions import position_at
from ..log.single_events import read_event, recorded_at
from .cloud_events import OutgoingEvent, encode_json, outgoing
from .enriched_event import EnrichedBatch, EnrichedEvent
from .enricher import EventEnricher
from .event_data import Dialect
from .event_filter import EventFilter
from .iceberg_events import IcebergEvents, IcebergFilter
from .project_limit import ProjectLimit
from .references import PathCache
from .shared_batches import SharedBatches

CONNECTIONS_MAX = 4
"""Connections to Postgres for all readers of events in a process, so that they take none from other queries."""
READS_OF_A_PROJECT_MAX = 2
"""Batches of one project that are read at a time: fewer than the connections."""
BATCH_EVENTS_MAX = 200
BATCH_BYTES_MAX = 64 * 1024
"""Limit on the states of one batch, and on what they refer to, plus one event: a slow subscriber holds no more."""
PAGE_BYTES_MAX = 8 * 1024 * 1024
"""A page that has reached this size ends with its current batch."""
PAGE_EVENTS_READ_MAX = 10_000
"""A page ends after this many events have been read, whether or not they matched the filter."""
PAGE_BYTES_READ_MAX = 32 * 1024 * 1024
"""A page also ends after this many bytes of states, plus one batch, so that a filter without matches does not read a whole large log."""
EVENT_BYTES_MAX = 1_000_000
"""A larger event is sent with `dataref`, as to sinks."""


@dataclass(frozen=True, slots=True)
class RenderedEvent:
    """One event as it is sent: its type, and its JSON."""

    position: int
    type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The events between two positions.

    position -- the last that was read, from which to continue. at_end -- there was no event after it. recorded_at -- of the last event
    that was read; None if there was none. bytes_read -- the size of the states of all events read, whether or not they matched the
    filter, and of what they refer to.
    """

    events: Sequence[RenderedEvent]
    position: int
    at_end: bool
    recorded_at: datetime | None
    bytes_read: int = 0


@dataclass(slots=True)
class PullMetrics:
    """Counters for the metrics."""

    subscribers: int = 0
    events_published: int = 0
    subscribers_refused: int = 0


@dataclass(frozen=True, slots=True)
class RenderedBatch:
    """The rendered ones of the first `count` events of a batch; the others are requested again.

    bytes_read -- the size of what they refer to besides their states.
    """

    events: list[RenderedEvent]
    count: int
    bytes_read: int


class EventRenderer(Protocol):
    """Renders events for clients, in successive batches in the order of the log."""

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> RenderedBatch: ...


class LogEventReader:
    """One reader that moves forward through the log.

    reading -- makes the block in which a batch is read, within the limit on those of its project.
    """

    def __init__(
        self,
        connections: ConnectionPool,
        renderer: EventRenderer,
        metrics: PullMetrics,
        reading: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        self._connections = connections
        self._reading = reading
        self._renderer = renderer
        self._metrics = metrics
        self._batch_events_max = BATCH_EVENTS_MAX

    async def batch(self, after: int, *, to: int | None = None, events_max: int = BATCH_EVENTS_MAX) -> EventBatch:
        """The events after a position, up to `to`; at most BATCH_EVENTS_MAX and BATCH_BYTES_MAX."""
        limit = min(events_max, BATCH_EVENTS_MAX, self._batch_events_max)
        if to is not None:
            limit = min(limit, max(to - after, 0))
        if limit == 0:
            return EventBatch((), after, True, None)
        async with self._reading(), self._connections.connection() as connection:
            events = await read_events(connection, after, limit, bytes_max=BATCH_BYTES_MAX)
            if not events:
                return EventBatch((), after, True, None)
            rendered = await self._renderer.render(connection, events)
        self._batch_events_max = _next_batch_events_max(self._batch_events_max, rendered.count, len(events))
        events = events[: rendered.count]
        self._metrics.events_published += len(rendered.events)
        bytes_read = rendered.bytes_read + sum(len(event.data) for event in events)
        return EventBatch(rendered.events, events[-1].position, False, events[-1].recorded_at, bytes_read)

    async def page(self, after: int, *, to: int | None, events_max: int, reserve_memory: Callable[[int], None]) -> EventBatch:
        """Reads batches until there are `events_max` events or a limit of a page is reached.

        reserve_memory -- called after each batch with the bytes of all events so far; if it raises, the page ends.
        """
        rendered: list[RenderedEvent] = []
        position, bytes_published, bytes_read, recorded_at = after, 0, 0, None
        while (
            len(rendered) < events_max
            and bytes_published < PAGE_BYTES_MAX
            and bytes_read < PAGE_BYTES_READ_MAX
            and position - after < PAGE_EVENTS_READ_MAX
        ):
            batch = await self.batch(position, to=to, events_max=events_max - len(rendered))
            if batch.at_end:
                return EventBatch(rendered, position, True, recorded_at)
            rendered += batch.events
            bytes_published += sum(len(event.body) for event in batch.events)
            bytes_read += batch.bytes_read
            reserve_memory(bytes_published)
            position, recorded_at = batch.position, batch.recorded_at
        return EventBatch(rendered, position, position == to, recorded_at)


def _next_batch_events_max(before: int, rendered: int, read: int) -> int:
    """After a batch was cut, at most twice the number rendered is read, because the rest is read again each time."""
    return min(BATCH_EVENTS_MAX, 2 * (rendered if rendered < read else before))


class CloudEventReader(LogEventReader):
    """Reads CloudEvents. Once it has reached the end of the log, it shares batches with all other such readers."""

    def __init__(
        self,
        connections: ConnectionPool,
        renderer: "_CloudEvents",
        metrics: PullMetrics,
        reading: Callable[[], AbstractAsyncContextManager[None]],
        shared: SharedBatches,
    ) -> None:
        super().__init__(connections, renderer, metrics, reading)
        self._cloud_events = renderer
        self._shared = shared
        self._caught_up = False

    async def batch(self, after: int, *, to: int | None = None, events_max: int = BATCH_EVENTS_MAX) -> EventBatch:
        if not self._caught_up:
            alone = await super().batch(after, to=to, events_max=events_max)
            self._caught_up = alone.at_end
            return alone
        async with self._reading():
            shared = await self._shared.after(after)
        events = [each.event for each in shared.enriched if to is None or each.event.position <= to][:events_max]
        if not events:
            return EventBatch((), after, True, None)
        rendered = [
            self._cloud_events.rendered(*shared.encoded(number, self._cloud_events.dialect))
            for number in range(len(events))
            if self._cloud_events.matches(shared.enriched[number])
        ]
        self._metrics.events_published += len(rendered)
        if len(shared.enriched) >= BATCH_EVENTS_MAX:
            # It has fallen behind, so its next batch is of no use to others.
            self._caught_up = False
        return EventBatch(rendered, events[-1].position, False, events[-1].recorded_at)


class LogEventSource:
    """The source of events for the clients of a serving process.

    subscribers_max -- how many clients may wait for events at a time. base_url -- the beginning of the URL of an event that is too large.
    polls -- the log is read on a standby, which sends no notifications.
    """

    def __init__(self, dsn: str, *, subscribers_max: int, base_url: str, polls: bool = False) -> None:
        self._connections = ConnectionPool(dsn, CONNECTIONS_MAX, application_name="icecore-events")
        self._project_limit = ProjectLimit(READS_OF_A_PROJECT_MAX)
        self._listener = LogListener(dsn, polls=polls)
        self._path_cache = PathCache()
        self._shared = SharedBatches(self._connections, self._path_cache, events_max=BATCH_EVENTS_MAX, bytes_max=BATCH_BYTES_MAX)
        self._connections.on_broken = self._forget
        self._subscribers_max = subscribers_max
        self._base_url = base_url
        self.metrics = PullMetrics()
        self.is_stopping = False

    def _forget(self) -> None:
        """Clears the caches: after a broken connection, the database may have been restored."""
        self._shared.clear()
        self._path_cache.clear()

    def reader(
        self, project_id: UUID, *, types: Sequence[str], warehouse_ids: Collection[UUID], namespaces: Sequence[str], dialect: Dialect
    ) -> LogEventReader:
        """A reader of the CloudEvents of one project. Raises BadRequest for a type that no event has. Empty filters match everything."""
        try:
            event_filter = EventFilter.parse(tuple(types), (), tuple(namespaces))
        except FilterError as error:
            raise BadRequest(f"Invalid parameter {error.member!r}: {error.reason}") from None
        renderer = _CloudEvents(project_id, event_filter, frozenset(warehouse_ids), dialect, self._base_url, self._path_cache)
        return CloudEventReader(self._connections, renderer, self.metrics, partial(self._project_limit.acquired, project_id), self._shared)

    def iceberg_reader(
        self,
        project_id: UUID,
        warehouse_id: UUID,
        *,
        operation_types: Sequence[str],
        object_names: Sequence[Sequence[str]],
        object_uuids: Sequence[str],
        object_types: Sequence[str],
        exact_names: bool,
    ) -> LogEventReader:
        """A reader of a warehouse's events in the form of Iceberg's proposal."""
        iceberg_filter = IcebergFilter.of(operation_types, object_names, object_uuids, object_types, exact_names=exact_names)
        renderer = _IcebergEvents(warehouse_id, iceberg_filter, self._path_cache)
        return LogEventReader(self._connections, renderer, self.metrics, partial(self._project_limit.acquired, project_id))

    async def load_event(self, project_id: UUID, event_id: UUID, dialect: Dialect) -> bytes | None:
        """One event of a project with its data, however large; None if the project has no event with that id."""
        async with self._project_limit.acquired(project_id), self._connections.connection() as connection:
            event = await read_event(connection, event_id)
            if event is None or event.project_id != project_id:
                return None
            (enriched,) = (await EventEnricher(path_cache=self._path_cache).enrich(connection, [event])).events
        self.metrics.events_published += 1
        return encode_json(outgoing(enriched, dialect))

    async def head(self) -> int:
        """The position of the last event."""
        async with self._connections.connection() as connection:
            return await log_head(connection)

    async def recorded_at(self, position: int) -> datetime | None:
        """When the event at a position was recorded; None if there is none."""
        async with self._connections.connection() as connection:
            return await recorded_at(connection, position)

    async def position_before(self, at: datetime) -> int | None:
        """The position of the last event recorded before a time; 0 if there is none; None for a future time."""
        async with self._connections.connection() as connection:
            return await position_at(connection, at - timedelta(microseconds=1))

    @contextmanager
    def subscription(self) -> Iterator[None]:
        """Counts a subscriber. Raises TooManyRequests if there are too many."""
        if self.metrics.subscribers >= self._subscribers_max:
            self.metrics.subscribers_refused += 1
            raise TooManyRequests(f"{self._subscribers_max} clients are already waiting for events; try again later")
        self.metrics.subscribers += 1
        try:
            yield
        finally:
            self.metrics.subscribers -= 1

    async def wait_for_event(self, after: int, seconds: float) -> bool:
        """Whether there is an event after a position. Waits at most `seconds`, and ends when the server stops."""
        return await self._listener.after(after, seconds)

    def stop(self) -> None:
        """Ends all waits, because the server is stopping."""
        self.is_stopping = True
        self._listener.stop()

    async def close(self) -> None:
        self.stop()
        await self._listener.close()
        await self._connections.close()


class _CloudEvents:
    """Renders events of one project as for sinks."""

    def __init__(
        self,
        project_id: UUID,
        event_filter: EventFilter,
        warehouse_ids: frozenset[UUID],
        dialect: Dialect,
        base_url: str,
        path_cache: PathCache,
    ) -> None:
        self._project_id = project_id
        self._event_filter = event_filter
        self._warehouse_ids = warehouse_ids
        self.dialect: Dialect = dialect
        self._base_url = base_url
        self._enricher = EventEnricher(path_cache=path_cache)

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> RenderedBatch:
        wanted = [event for event in events if self._may_match(event)]
        enriched = await self._enricher.enrich(connection, wanted, is_chosen=self._event_filter.matches_path, bytes_max=BATCH_BYTES_MAX)
        rendered = (outgoing(each, self.dialect) for each in enriched.events)
        return RenderedBatch(
            [self.rendered(event, encode_json(event)) for event in rendered], _rendered_count(events, wanted, enriched), enriched.bytes_read
        )

    def matches(self, enriched: EnrichedEvent) -> bool:
        """Whether an event is rendered."""
        event = enriched.event
        return self._may_match(event) and self._event_filter.matches(enriched)

    def rendered(self, event: OutgoingEvent, body: bytes) -> RenderedEvent:
        """An event as it is sent; `body` is its JSON."""
        if len(body) > EVENT_BYTES_MAX:
            body = encode_json(event.with_reference(self._base_url))
        return RenderedEvent(event.position, event.cloud_event.get_type(), body)

    def _may_match(self, event: RecordedEvent) -> bool:
        of_warehouse = not self._warehouse_ids or event.warehouse_id in self._warehouse_ids
        return event.project_id == self._project_id and of_warehouse and self._event_filter.may_match(event)


class _IcebergEvents:
    """Renders the events of one warehouse in the form of Iceberg's proposal."""

    def __init__(self, warehouse_id: UUID, iceberg_filter: IcebergFilter, path_cache: PathCache) -> None:
        self._warehouse_id = warehouse_id
        self._events = IcebergEvents(iceberg_filter, path_cache)

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> RenderedBatch:
        wanted = [event for event in events if event.warehouse_id == self._warehouse_id]
        enriched = await self._events.enrich(connection, wanted, bytes_max=BATCH_BYTES_MAX)
        rendered = [RenderedEvent(each.position, each.operation_type, each.body) for each in enriched.events]
        return RenderedBatch(rendered, _rendered_count(events, wanted, enriched), enriched.bytes_read)


def _rendered_count(events: Sequence[RecordedEvent], wanted: Sequence[RecordedEvent], enriched: EnrichedBatch[Any]) -> int:
    """How many of `events` are before the first of `wanted` that was not enriched; positions are dense."""
    return len(events) if enriched.count == len(wanted) else wanted[enriched.count].position - events[0].position
