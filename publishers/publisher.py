"""The publisher of one sink: becomes leader, reads the sink's position, and publishes the log from there."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import psycopg
import structlog

from ..database.outage_log import OutageLog
from ..domain.client_errors import client_error_text
from ..domain.recorded import RecordedEvent
from ..log.follow import listen, read_events, wait_for_events
from .checkpoints import Leadership, LeadershipLostError, OperatorRequests, ReplayRequest, leading
from .cloud_events import OutgoingEvent, Replay, outgoing
from .enricher import EventEnricher
from .event_data import Dialect
from .event_filter import EventFilter
from .references import Path
from .sink import Checkpoint, Sink, SinkError, SinkPosition, SinkRefusedError

_log = structlog.get_logger("icecore.publisher")

TAKE_OVER_SECONDS = 1.0
"""How often a process that is not the leader tries to become it."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
CHECKPOINT_INTERVAL_SECONDS = 1.0
"""How far the row in Postgres may lag if the sink stores its own position."""
ENRICHED_BYTES_MAX = 4 * 1024 * 1024
"""Limit on the data that the events of a batch refer to besides their own states, such as snapshots of a roll-back; plus one event."""


class Publisher:
    """Publishes to one sink. Any number of processes may run a publisher of the same sink; one of them is the leader.

    make_sink -- returns a new connection to the sink, not yet opened.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        make_sink: Callable[[], Sink],
        *,
        event_filter: EventFilter,
        dialect: Dialect,
        start: Literal["beginning", "now"],
    ) -> None:
        self._dsn = dsn
        self._name = name
        self._make_sink = make_sink
        self._event_filter = event_filter
        self._dialect: Dialect = dialect
        self._start: Literal["beginning", "now"] = start
        self._pause = PAUSE_SECONDS_MIN
        self._database_outage = OutageLog("icecore.publisher", "sink_database_unreachable", "sink_database_recovered", sink=name)
        self._sink_outage = OutageLog("icecore.publisher", "sink_failed", "sink_recovered", sink=name)
        # After a failure, events are published one by one up to this position, so that a refused event does not block those before it.
        self._single_events_until = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. If the database or the leadership is lost, it tries again."""
        while not stop.is_set():
            try:
                async with leading(self._dsn, self._name, self._start) as leadership:
                    self._database_outage.succeeded()
                    if leadership is not None:
                        _log.info("sink_leader_started", sink=self._name, position=leadership.position)
                        await self._publish_as_leader(leadership, stop)
                        continue
            except LeadershipLostError:
                _log.warning("sink_leader_lost", sink=self._name)
            except psycopg.Error as error:
                self._database_outage.failed(error=client_error_text(error))
            await _sleep(TAKE_OVER_SECONDS, stop)

    async def _publish_as_leader(self, leadership: Leadership, stop: asyncio.Event) -> None:
        await listen(leadership.connection)
        while not stop.is_set():
            sink: Sink | None = None
            retry_after_seconds = 0.0
            try:
                # Inside the block, because it reads files with secrets, which may be missing.
                sink = self._make_sink()
                await self._publish_log(leadership, sink, stop)
                return
            except (LeadershipLostError, psycopg.Error):
                raise
            except SinkError as error:
                await self._report(leadership, error)
                retry_after_seconds = error.retry_after_seconds
            except Exception as error:
                self._sink_outage.failed(type(error), began="publisher_failed", exc_info=error)
                await self._report(leadership, error)
            finally:
                if sink is not None:
                    await sink.close()
            await _sleep(max(self._pause * random.uniform(0.5, 1.0), retry_after_seconds), stop)  # noqa: S311
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)

    async def _report(self, leadership: Leadership, error: Exception) -> None:
        if isinstance(error, SinkError) and error.acknowledged is not None and error.acknowledged > leadership.position:
            await leadership.move(error.acknowledged, leadership.broker_sequence)
            self._pause = PAUSE_SECONDS_MIN
        blocked = error.position if isinstance(error, SinkError) else None
        # The text of a SinkError is ours. The text of other errors may contain what was passed to a client library.
        message = str(error) if isinstance(error, SinkError) else client_error_text(error)
        if isinstance(error, SinkError):
            self._sink_outage.failed(blocked, error=message, blocked_position=blocked)
        await leadership.report(message, blocked)

    async def _publish_log(self, leadership: Leadership, sink: Sink, stop: asyncio.Event) -> None:
        """Publishes until `stop` is set. Raises SinkError, and any unexpected exception."""
        live = await self._begin(leadership, await sink.open())
        progress = _Progress(leadership, sink.STORES_POSITION)
        enricher, replaying = EventEnricher(), _Replaying(self._dialect, self._event_filter)
        following: asyncio.Task[_Batch] | None = None
        try:
            while not stop.is_set():
                operator_requests = await leadership.operator_requests()
                batch = await (following or self._batch(leadership, enricher, operator_requests, live.position, sink))
                following = None
                if batch.events:
                    end = batch.events[-1].position
                    if batch.is_full:
                        # Prepares the next batch while this one is being published.
                        following = asyncio.create_task(self._batch(leadership, enricher, operator_requests, end, sink))
                    if batch.messages:
                        progress.broker_sequence = await self._publish(sink, batch)
                        self._sink_outage.succeeded()
                    live = Checkpoint(end, batch.events[-1].event_id)
                    await progress.up_to(end)
                    self._pause = PAUSE_SECONDS_MIN
                if operator_requests.replay is not None:
                    progress.broker_sequence = await replaying.step(leadership, sink, operator_requests, live) or progress.broker_sequence
                elif not batch.events:
                    await progress.now()
                    self._sink_outage.succeeded()
                    await wait_for_events(leadership.connection, stop)
            await progress.now()
        finally:
            if following is not None:
                await asyncio.gather(following, return_exceptions=True)

    def _batch_events_max(self, sink: Sink, position: int) -> int:
        return 1 if position < self._single_events_until else sink.BATCH_EVENTS_MAX

    async def _publish(self, sink: Sink, batch: "_Batch") -> int:
        try:
            return await sink.publish(batch.messages, None)
        except SinkRefusedError:
            self._single_events_until = max(self._single_events_until, batch.events[-1].position)
            raise

    async def _batch(
        self, leadership: Leadership, enricher: EventEnricher, operator_requests: OperatorRequests, after: int, sink: Sink
    ) -> "_Batch":
        """The events after a position, and the messages for those that are published."""
        events_max = self._batch_events_max(sink, after)
        events: Sequence[RecordedEvent] = await read_events(leadership.connection, after, events_max)
        if not events:
            return _Batch([], [], False)
        read = len(events)
        try:
            events, messages = await messages_of(
                leadership, enricher, events, operator_requests.skips, (self._event_filter,), self._dialect
            )
        except psycopg.Error:
            raise
        except Exception as error:
            # The error must name the event, which must not block those before it: the events are tried one by one.
            self._single_events_until = max(self._single_events_until, events[-1].position)
            if len(events) > 1:
                raise
            problem = SinkError(f"position {events[0].position} ({events[0].topic}) cannot be published: {client_error_text(error)}")
            problem.position = events[0].position
            raise problem from error
        return _Batch(events, messages, read == events_max or len(events) < read)

    async def _begin(self, leadership: Leadership, sink_position: SinkPosition) -> Checkpoint:
        """The position to continue from: the greater of the position that the sink stores and the one in `icecore.sinks`, unless the sink
        lost events that it had acknowledged.
        """
        start = leadership.position
        if sink_position.checkpoint is None:
            if leadership.broker_sequence > sink_position.broker_sequence:
                _log.error("sink_lost_events", sink=self._name, acknowledged_up_to=leadership.position)
                await leadership.record_lost_events(leadership.position, sink_position.broker_sequence)
        else:
            await self._check_log(leadership, sink_position.checkpoint)
            if sink_position.broker_sequence < leadership.broker_sequence and sink_position.checkpoint.position < start:
                _log.error("sink_position_reset", sink=self._name, acknowledged_up_to=start, holds_up_to=sink_position.checkpoint.position)
                start = sink_position.checkpoint.position
            else:
                start = max(start, sink_position.checkpoint.position)
        await leadership.move(start, max(sink_position.broker_sequence, 0))
        live = await leadership.checkpoint(start)
        if live is None:
            raise SinkError(f"the sink's row is at position {start}, which is not in the log: it may belong to another log")
        return live

    async def _check_log(self, leadership: Leadership, held: Checkpoint) -> None:
        """Raises SinkError if the sink's last event is not in this log: its position would be meaningless, and events would be missed."""
        if await leadership.checkpoint(held.position) != held:
            raise SinkError(
                f"the sink holds position {held.position} with event {held.event_id}, which is not in this log: it was filled from another,"
                " or the database was restored to an earlier point; nothing is published until its stream is empty or another is configured"
            )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events of the log, and the messages for those that are published. is_full -- whether more events may follow immediately."""

    events: Sequence[RecordedEvent]
    messages: Sequence[OutgoingEvent]
    is_full: bool


class _Progress:
    """Stores the position in Postgres: after every batch, or from time to time if the sink stores its own position."""

    def __init__(self, leadership: Leadership, stores_position: bool) -> None:
        self.broker_sequence = leadership.broker_sequence
        self._leadership = leadership
        self._seconds = CHECKPOINT_INTERVAL_SECONDS if stores_position else 0.0
        self._position = leadership.position
        self._moved_at = asyncio.get_running_loop().time()

    async def up_to(self, position: int) -> None:
        self._position = position
        if asyncio.get_running_loop().time() - self._moved_at >= self._seconds:
            await self.now()

    async def now(self) -> None:
        # First, so that a sink that is up to date is never shown with an old error.
        await self._leadership.recovered()
        if (self._position, self.broker_sequence) != (self._leadership.position, self._leadership.broker_sequence):
            await self._leadership.move(self._position, self.broker_sequence)
        self._moved_at = asyncio.get_running_loop().time()


class _Replaying:
    """Publishes the current replay, one batch at a time between live batches."""

    def __init__(self, dialect: Dialect, event_filter: EventFilter) -> None:
        self._dialect: Dialect = dialect
        self._event_filter = event_filter
        self._replay_request: ReplayRequest | None = None
        self._enricher = EventEnricher()

    async def step(self, leadership: Leadership, sink: Sink, operator_requests: OperatorRequests, live: Checkpoint) -> int | None:
        """Publishes the next batch of the replay. Returns the broker's sequence number; None if the batch has no messages."""
        replay_request = operator_requests.replay
        assert replay_request is not None
        if self._replay_request is None or self._replay_request.id != replay_request.id:
            self._enricher = EventEnricher()
        self._replay_request = replay_request
        limit = min(sink.BATCH_EVENTS_MAX, replay_request.to_position - replay_request.replayed_position)
        # The log contains all events of a replay: that was checked when the replay was requested.
        events: Sequence[RecordedEvent] = await read_events(leadership.connection, replay_request.replayed_position, limit)
        both = (self._event_filter, replay_request.filter)
        events, messages = await messages_of(
            leadership, self._enricher, events, operator_requests.skips, both, self._dialect, replay=Replay(replay_request.id)
        )
        try:
            broker_sequence = await sink.publish(messages, live) if messages else None
        except SinkError as error:
            # The progress of the replay must not move the live position, which may be lower.
            if error.acknowledged is not None:
                await leadership.move_replay(
                    replay_request, error.acknowledged, sum(message.position <= error.acknowledged for message in messages)
                )
            error.acknowledged = None
            raise
        await leadership.move_replay(replay_request, events[-1].position, len(messages))
        return broker_sequence


async def messages_of(
    leadership: Leadership,
    enricher: EventEnricher,
    events: Sequence[RecordedEvent],
    skips: frozenset[int],
    filters: Sequence[EventFilter],
    dialect: Dialect,
    *,
    replay: Replay | None = None,
) -> tuple[Sequence[RecordedEvent], list[OutgoingEvent]]:
    """The first of `events` (all, unless they refer to more than ENRICHED_BYTES_MAX), and messages for those that pass every filter."""
    wanted = [event for event in events if event.position not in skips and all(each.may_match(event) for each in filters)]

    def is_chosen(event: RecordedEvent, path: Path | None) -> bool:
        return all(each.matches_path(event, path) for each in filters)

    enriched = await enricher.enrich(leadership.connection, wanted, is_chosen=is_chosen, bytes_max=ENRICHED_BYTES_MAX)
    if enriched.count < len(wanted):
        events = [event for event in events if event.position < wanted[enriched.count].position]
    return events, [outgoing(each, dialect, replay) for each in enriched.events]


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
