"""Events for HTTP clients: limited batches, waiting for new events, and one event by its id."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
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
from .cloud_events import Outgoing, encode_json, outgoing
from .enriched_event import EnrichedBatch, EnrichedEvent
from .enricher import EventEnricher
from .event_data import Dialect
from .event_filter import EventFilter
from .iceberg_events import IcebergEvents, IcebergFilter
from .references import KnownNames
from .shared_batches import SharedBatches

CONNECTIONS_MAX = 4
"""To Postgres, of all who ask in a process: who reads the log takes none from who reads tables."""
BATCH_EVENTS_MAX = 200
BATCH_BYTES_MAX = 64 * 1024
"""Of the states of one batch, and as much of what they refer to, and one more event: what a subscriber holds, however slowly it is read."""
PAGE_BYTES_MAX = 8 * 1024 * 1024
"""A page that has reached this ends with its batch."""
PAGE_EVENTS_READ_MAX = 10_000
"""A page ends after so many events, whatever a filter let through."""
PAGE_BYTES_READ_MAX = 32 * 1024 * 1024
"""And after so many bytes of their states, and one more batch: a filter that lets nothing through would read all of a large log."""
EVENT_BYTES_MAX = 1_000_000
"""A larger event goes out with `dataref`, as to sinks."""


@dataclass(frozen=True, slots=True)
class PulledEvent:
    """One event as it is sent: its type, and its JSON."""

    position: int
    type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class PulledEvents:
    """What the log tells between one position and another.

    position -- the last that was read: to go on from. at_end -- nothing stood behind it. recorded_at -- of the last event that was
    read, None where there was none. bytes_read -- of the states of all that was read, whatever the filter let through, and of what was
    described with them.
    """

    events: Sequence[PulledEvent]
    position: int
    at_end: bool
    recorded_at: datetime | None
    bytes_read: int = 0


@dataclass(slots=True)
class PullMetrics:
    """Counts for the metrics."""

    subscribers: int = 0
    events_published: int = 0
    subscribers_refused: int = 0


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the first `count` events of a batch came to: the others are asked for again.

    bytes_read -- of what they refer to beside their states.
    """

    events: list[PulledEvent]
    count: int
    bytes_read: int


class EventRenderer(Protocol):
    """Makes what is sent of events, in batches that follow one another in the order of the log."""

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> Rendered: ...


class LogEventReader:
    """One run through the log, forwards."""

    def __init__(self, connections: ConnectionPool, renderer: EventRenderer, metrics: PullMetrics) -> None:
        self._connections = connections
        self._renderer = renderer
        self._metrics = metrics
        self._batch_events_max = BATCH_EVENTS_MAX

    async def batch(self, after: int, *, to: int | None = None, events_max: int = BATCH_EVENTS_MAX) -> PulledEvents:
        """What comes after a position and not after `to`; BATCH_EVENTS_MAX and BATCH_BYTES_MAX at most."""
        limit = min(events_max, BATCH_EVENTS_MAX, self._batch_events_max)
        if to is not None:
            limit = min(limit, max(to - after, 0))
        if limit == 0:
            return PulledEvents((), after, True, None)
        async with self._connections.connection() as connection:
            events = await read_events(connection, after, limit, bytes_max=BATCH_BYTES_MAX)
            if not events:
                return PulledEvents((), after, True, None)
            rendered = await self._renderer.render(connection, events)
        self._batch_events_max = _next_batch_events_max(self._batch_events_max, rendered.count, len(events))
        events = events[: rendered.count]
        self._metrics.events_published += len(rendered.events)
        bytes_read = rendered.bytes_read + sum(len(event.state) for event in events)
        return PulledEvents(rendered.events, events[-1].position, False, events[-1].recorded_at, bytes_read)

    async def page(self, after: int, *, to: int | None, events_max: int, make_room: Callable[[int], None]) -> PulledEvents:
        """Batch after batch, until there are `events_max` events or a limit of a page is reached.

        make_room -- is called with the bytes of all its events, after each batch; what it raises ends the page.
        """
        rendered: list[PulledEvent] = []
        position, bytes_published, bytes_read, recorded_at = after, 0, 0, None
        while (
            len(rendered) < events_max
            and bytes_published < PAGE_BYTES_MAX
            and bytes_read < PAGE_BYTES_READ_MAX
            and position - after < PAGE_EVENTS_READ_MAX
        ):
            batch = await self.batch(position, to=to, events_max=events_max - len(rendered))
            if batch.at_end:
                return PulledEvents(rendered, position, True, recorded_at)
            rendered += batch.events
            bytes_published += sum(len(event.body) for event in batch.events)
            bytes_read += batch.bytes_read
            make_room(bytes_published)
            position, recorded_at = batch.position, batch.recorded_at
        return PulledEvents(rendered, position, position == to, recorded_at)


def _next_batch_events_max(before: int, rendered: int, read: int) -> int:
    """After a batch that was cut, no more than twice what was rendered of it is read: the rest is read again each time."""
    return min(BATCH_EVENTS_MAX, 2 * (rendered if rendered < read else before))


class CloudEventReader(LogEventReader):
    """Tells CloudEvents; once it has come to the end of the log, it reads on together with all others that have."""

    def __init__(self, connections: ConnectionPool, renderer: "_CloudEvents", metrics: PullMetrics, shared: SharedBatches) -> None:
        super().__init__(connections, renderer, metrics)
        self._cloud_events = renderer
        self._shared = shared
        self._caught_up = False

    async def batch(self, after: int, *, to: int | None = None, events_max: int = BATCH_EVENTS_MAX) -> PulledEvents:
        if not self._caught_up:
            alone = await super().batch(after, to=to, events_max=events_max)
            self._caught_up = alone.at_end
            return alone
        shared = await self._shared.after(after)
        events = [each.event for each in shared.descriptions if to is None or each.event.position <= to][:events_max]
        if not events:
            return PulledEvents((), after, True, None)
        rendered = [
            self._cloud_events.pulled(*shared.encoded(number, self._cloud_events.dialect))
            for number in range(len(events))
            if self._cloud_events.lets_through(shared.descriptions[number])
        ]
        self._metrics.events_published += len(rendered)
        if len(shared.descriptions) >= BATCH_EVENTS_MAX:
            # It has fallen behind: others have no use for what it reads next.
            self._caught_up = False
        return PulledEvents(rendered, events[-1].position, False, events[-1].recorded_at)


class LogEventSource:
    """The log as a serving process tells it to its clients.

    subscribers_max -- who may wait for events at one time. base_url -- stands before the address of an event that is too large.
    """

    def __init__(self, dsn: str, *, subscribers_max: int, base_url: str) -> None:
        self._connections = ConnectionPool(dsn, CONNECTIONS_MAX, application_name="icecore-events")
        self._listener = LogListener(dsn)
        self._known_names = KnownNames()
        self._shared = SharedBatches(self._connections, self._known_names, events_max=BATCH_EVENTS_MAX, bytes_max=BATCH_BYTES_MAX)
        self._connections.on_broken = self._forget
        self._subscribers_max = subscribers_max
        self._base_url = base_url
        self.metrics = PullMetrics()
        self.is_stopping = False

    def _forget(self) -> None:
        """Behind a connection that broke there may be another log."""
        self._shared.clear()
        self._known_names.clear()

    def reader(
        self, *, types: Sequence[str], warehouse_ids: Collection[UUID], namespaces: Sequence[str], dialect: Dialect
    ) -> LogEventReader:
        """Tells CloudEvents. Raises BadRequest for a type no event has; empty filters let everything through."""
        try:
            chosen = EventFilter.parse(tuple(types), (), tuple(namespaces))
        except FilterError as error:
            raise BadRequest(f"Invalid parameter {error.member!r}: {error.reason}") from None
        renderer = _CloudEvents(chosen, frozenset(warehouse_ids), dialect, self._base_url, self._known_names)
        return CloudEventReader(self._connections, renderer, self.metrics, self._shared)

    def iceberg_reader(
        self,
        warehouse_id: UUID,
        *,
        operation_types: Sequence[str],
        object_names: Sequence[Sequence[str]],
        object_uuids: Sequence[str],
        object_types: Sequence[str],
        exact_names: bool,
    ) -> LogEventReader:
        """Tells the events of a warehouse as Iceberg's proposal has them."""
        chosen = IcebergFilter.of(operation_types, object_names, object_uuids, object_types, exact_names=exact_names)
        return LogEventReader(self._connections, _IcebergEvents(warehouse_id, chosen, self._known_names), self.metrics)

    async def whole(self, event_id: UUID, dialect: Dialect) -> bytes | None:
        """One event with its data, however large; None where the log has none of that id."""
        async with self._connections.connection() as connection:
            event = await read_event(connection, event_id)
            if event is None:
                return None
            (description,) = (await EventEnricher(known_names=self._known_names).enrich(connection, [event])).events
        self.metrics.events_published += 1
        return encode_json(outgoing(description, dialect))

    async def head(self) -> int:
        """The position of the last event."""
        async with self._connections.connection() as connection:
            return await log_head(connection)

    async def recorded_at(self, position: int) -> datetime | None:
        """When the event at a position was recorded; None where there is none."""
        async with self._connections.connection() as connection:
            return await recorded_at(connection, position)

    async def position_before(self, at: datetime) -> int | None:
        """The position of the last event recorded before a time, 0 where there is none; None where the time has not come yet."""
        async with self._connections.connection() as connection:
            return await position_at(connection, at - timedelta(microseconds=1))

    @contextmanager
    def following(self) -> Iterator[None]:
        """A place among those who wait. Raises TooManyRequests where all are taken."""
        if self.metrics.subscribers >= self._subscribers_max:
            self.metrics.subscribers_refused += 1
            raise TooManyRequests(f"{self._subscribers_max} clients are waiting for events already")
        self.metrics.subscribers += 1
        try:
            yield
        finally:
            self.metrics.subscribers -= 1

    async def arrived(self, after: int, seconds: float) -> bool:
        """Whether something stands after a position; waits for it `seconds` at most, and not once the server stops."""
        return await self._listener.after(after, seconds)

    def stop(self) -> None:
        """Who waits is to come to an end: the server stops."""
        self.is_stopping = True
        self._listener.stop()

    async def close(self) -> None:
        self.stop()
        await self._listener.close()
        await self._connections.close()


class _CloudEvents:
    """The same events as sinks are rendered."""

    def __init__(
        self, chosen: EventFilter, warehouse_ids: frozenset[UUID], dialect: Dialect, base_url: str, known_names: KnownNames
    ) -> None:
        self._chosen = chosen
        self._warehouse_ids = warehouse_ids
        self.dialect: Dialect = dialect
        self._base_url = base_url
        self._enricher = EventEnricher(known_names=known_names)

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> Rendered:
        wanted = [event for event in events if self._chosen.may_match(event) and self._of_warehouse(event)]
        described = await self._enricher.enrich(connection, wanted, chosen=self._chosen.matches_path, bytes_max=BATCH_BYTES_MAX)
        rendered = (outgoing(description, self.dialect) for description in described.events)
        return Rendered(
            [self.pulled(event, encode_json(event)) for event in rendered], _answered(events, wanted, described), described.bytes_read
        )

    def lets_through(self, description: EnrichedEvent) -> bool:
        """Whether an event is rendered."""
        event = description.event
        return self._chosen.may_match(event) and self._of_warehouse(event) and self._chosen.matches(description)

    def pulled(self, event: Outgoing, body: bytes) -> PulledEvent:
        """An event as it is sent; `body` is its JSON."""
        if len(body) > EVENT_BYTES_MAX:
            body = encode_json(event.with_reference(self._base_url))
        return PulledEvent(event.position, event.cloud_event.get_type(), body)

    def _of_warehouse(self, event: RecordedEvent) -> bool:
        return not self._warehouse_ids or event.warehouse_id in self._warehouse_ids


class _IcebergEvents:
    """The events of one warehouse, in the shape of Iceberg's proposal."""

    def __init__(self, warehouse_id: UUID, chosen: IcebergFilter, known_names: KnownNames) -> None:
        self._warehouse_id = warehouse_id
        self._events = IcebergEvents(chosen, known_names)

    async def render(self, connection: Connection, events: Sequence[RecordedEvent]) -> Rendered:
        wanted = [event for event in events if event.warehouse_id == self._warehouse_id]
        described = await self._events.enrich(connection, wanted, bytes_max=BATCH_BYTES_MAX)
        rendered = [PulledEvent(each.position, each.operation_type, each.body) for each in described.events]
        return Rendered(rendered, _answered(events, wanted, described), described.bytes_read)


def _answered(events: Sequence[RecordedEvent], wanted: Sequence[RecordedEvent], described: EnrichedBatch[Any]) -> int:
    """How many of `events` lie before the first of `wanted` that was left; positions are dense."""
    return len(events) if described.count == len(wanted) else wanted[described.count].position - events[0].position
