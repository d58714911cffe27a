"""One sink's publisher: takes the lead, asks the sink how far it is, and tells it the log from there on, whatever fails on the way."""

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
from .checkpoints import Lead, LeadershipLostError, Orders, ReplayOrder, leading
from .cloud_events import Outgoing, Replay, outgoing
from .describe import Describer
from .event_data import Dialect
from .event_filter import EventFilter
from .pointers import Path
from .sink import Checkpoint, Sink, SinkError, SinkRefusedError, Tail

_log = structlog.get_logger("icecore.publisher")

TAKE_OVER_SECONDS = 1.0
"""How often a process that does not lead asks whether it may."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
ROW_SECONDS = 1.0
"""Behind a sink that remembers, the row in Postgres may lag by this."""
DESCRIBED_BYTES_MAX = 4 * 1024 * 1024
"""Of what the events of one batch refer to beside their own states, such as snapshots that a branch goes back to; and one event more."""


class Publisher:
    """Tells one sink; any number of processes may run one, and one of them leads.

    make_sink -- a fresh connection to the sink, not yet opened.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        make_sink: Callable[[], Sink],
        *,
        chosen: EventFilter,
        dialect: Dialect,
        start: Literal["beginning", "now"],
    ) -> None:
        self._dsn = dsn
        self._name = name
        self._make_sink = make_sink
        self._chosen = chosen
        self._dialect: Dialect = dialect
        self._start: Literal["beginning", "now"] = start
        self._pause = PAUSE_SECONDS_MIN
        self._log_outage = OutageLog("icecore.publisher", "sink_database_unreachable", "sink_database_recovered", sink=name)
        self._outage = OutageLog("icecore.publisher", "sink_failed", "sink_recovered", sink=name)
        # After a failure events go one by one until what failed is passed: one that is refused holds up none before it.
        self._singly_until = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; a lost database or lead is waited for."""
        while not stop.is_set():
            try:
                async with leading(self._dsn, self._name, self._start) as lead:
                    self._log_outage.succeeded()
                    if lead is not None:
                        _log.info("sink_leader_started", sink=self._name, position=lead.position)
                        await self._lead(lead, stop)
                        continue
            except LeadershipLostError:
                _log.warning("sink_leader_lost", sink=self._name)
            except psycopg.Error as error:
                self._log_outage.failed(error=client_error_text(error))
            await _sleep(TAKE_OVER_SECONDS, stop)

    async def _lead(self, lead: Lead, stop: asyncio.Event) -> None:
        await listen(lead.connection)
        while not stop.is_set():
            sink: Sink | None = None
            again_after_seconds = 0.0
            try:
                # It reads files with secrets, which may be missing.
                sink = self._make_sink()
                await self._tell(lead, sink, stop)
                return
            except (LeadershipLostError, psycopg.Error):
                raise
            except SinkError as error:
                await self._report(lead, error)
                again_after_seconds = error.again_after_seconds
            except Exception as error:
                self._outage.failed(type(error), began="publisher_failed", exc_info=error)
                await self._report(lead, error)
            finally:
                if sink is not None:
                    await sink.close()
            await _sleep(max(self._pause * random.uniform(0.5, 1.0), again_after_seconds), stop)  # noqa: S311
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)

    async def _report(self, lead: Lead, error: Exception) -> None:
        if isinstance(error, SinkError) and error.told is not None and error.told > lead.position:
            await lead.move(error.told, lead.mark)
            self._pause = PAUSE_SECONDS_MIN
        blocked = error.position if isinstance(error, SinkError) else None
        # A SinkError's words are ours; of any other the text may hold what a client was given.
        said = str(error) if isinstance(error, SinkError) else client_error_text(error)
        if isinstance(error, SinkError):
            self._outage.failed(blocked, error=said, blocked_position=blocked)
        await lead.report(said, blocked)

    async def _tell(self, lead: Lead, sink: Sink, stop: asyncio.Event) -> None:
        """Until `stop` is set. Raises SinkError, and whatever a fault of ours raises."""
        live = await self._begin(lead, await sink.open())
        told = _Told(lead, sink.REMEMBERS)
        describer, replaying = Describer(), _Replaying(self._dialect, self._chosen)
        following: asyncio.Task[_Batch] | None = None
        try:
            while not stop.is_set():
                orders = await lead.orders()
                batch = await (following or self._batch(lead, describer, orders, live.position, sink))
                following = None
                if batch.events:
                    end = batch.events[-1].position
                    if batch.is_full:
                        # Read and made while this one is on its way.
                        following = asyncio.create_task(self._batch(lead, describer, orders, end, sink))
                    if batch.messages:
                        told.mark = await self._publish(sink, batch)
                        self._outage.succeeded()
                    live = Checkpoint(end, batch.events[-1].event_id)
                    await told.up_to(end)
                    self._pause = PAUSE_SECONDS_MIN
                if orders.replay is not None:
                    told.mark = await replaying.step(lead, sink, orders, live) or told.mark
                elif not batch.events:
                    await told.now()
                    self._outage.succeeded()
                    await wait_for_events(lead.connection, stop)
            await told.now()
        finally:
            if following is not None:
                await asyncio.gather(following, return_exceptions=True)

    def _batch_events_max(self, sink: Sink, position: int) -> int:
        return 1 if position < self._singly_until else sink.BATCH_EVENTS_MAX

    async def _publish(self, sink: Sink, batch: "_Batch") -> int:
        try:
            return await sink.publish(batch.messages, None)
        except SinkRefusedError:
            self._singly_until = max(self._singly_until, batch.events[-1].position)
            raise

    async def _batch(self, lead: Lead, describer: Describer, orders: Orders, after: int, sink: Sink) -> "_Batch":
        """What comes after a position, and what of it goes out."""
        events_max = self._batch_events_max(sink, after)
        events: Sequence[RecordedEvent] = await read_events(lead.connection, after, events_max)
        if not events:
            return _Batch([], [], False)
        read = len(events)
        try:
            events, messages = await messages_of(lead, describer, events, orders.skips, (self._chosen,), self._dialect)
        except psycopg.Error:
            raise
        except Exception as error:
            # A fault of ours on one event must name it, and hold up none before it.
            self._singly_until = max(self._singly_until, events[-1].position)
            if len(events) > 1:
                raise
            problem = SinkError(f"position {events[0].position} ({events[0].topic}) cannot be told: {client_error_text(error)}")
            problem.position = events[0].position
            raise problem from error
        return _Batch(events, messages, read == events_max or len(events) < read)

    async def _begin(self, lead: Lead, tail: Tail) -> Checkpoint:
        """Where to go on: the larger of what the sink holds and what the row says, unless the sink lost what it had acknowledged."""
        start = lead.position
        if tail.checkpoint is None:
            if lead.mark > tail.mark:
                _log.error("sink_lost_events", sink=self._name, acknowledged_up_to=lead.position)
                await lead.lost(lead.position, tail.mark)
        else:
            await self._check_log(lead, tail.checkpoint)
            if tail.mark < lead.mark and tail.checkpoint.position < start:
                _log.error("sink_position_reset", sink=self._name, acknowledged_up_to=start, holds_up_to=tail.checkpoint.position)
                start = tail.checkpoint.position
            else:
                start = max(start, tail.checkpoint.position)
        await lead.move(start, max(tail.mark, 0))
        live = await lead.checkpoint(start)
        if live is None:
            raise SinkError(f"the sink's row says position {start}, which the log does not have: is this another log?")
        return live

    async def _check_log(self, lead: Lead, held: Checkpoint) -> None:
        """What the sink holds must be of this log: else its position says nothing, and events would be missed in silence."""
        if await lead.checkpoint(held.position) != held:
            raise SinkError(
                f"the sink holds position {held.position} with event {held.event_id}, which is not in this log: it was filled from another,"
                " or the database was restored to an earlier point; nothing is told until its stream is emptied or another one is named"
            )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Events of the log and what of them goes out; full: more may follow at once."""

    events: Sequence[RecordedEvent]
    messages: Sequence[Outgoing]
    is_full: bool


class _Told:
    """Moves the row: after every batch, or now and then behind a sink that remembers."""

    def __init__(self, lead: Lead, remembers: bool) -> None:
        self.mark = lead.mark
        self._lead = lead
        self._seconds = ROW_SECONDS if remembers else 0.0
        self._position = lead.position
        self._moved_at = asyncio.get_running_loop().time()

    async def up_to(self, position: int) -> None:
        self._position = position
        if asyncio.get_running_loop().time() - self._moved_at >= self._seconds:
            await self.now()

    async def now(self) -> None:
        # First: a sink that has been told everything must not be seen with an error that no longer stands.
        await self._lead.recovered()
        if (self._position, self.mark) != (self._lead.position, self._lead.mark):
            await self._lead.move(self._position, self.mark)
        self._moved_at = asyncio.get_running_loop().time()


class _Replaying:
    """The replay whose turn it is, a batch at a time between live ones."""

    def __init__(self, dialect: Dialect, chosen: EventFilter) -> None:
        self._dialect: Dialect = dialect
        self._chosen = chosen
        self._order: ReplayOrder | None = None
        self._describer = Describer()

    async def step(self, lead: Lead, sink: Sink, orders: Orders, live: Checkpoint) -> int | None:
        """Tells the next batch again; the sink's mark after it, None where nothing of it goes out."""
        order = orders.replay
        assert order is not None
        if self._order is None or self._order.id != order.id:
            self._describer = Describer()
        self._order = order
        limit = min(sink.BATCH_EVENTS_MAX, order.to_position - order.told_position)
        # The log reaches the end of every replay: it was checked when the replay was asked for.
        events: Sequence[RecordedEvent] = await read_events(lead.connection, order.told_position, limit)
        both = (self._chosen, order.filter)
        events, messages = await messages_of(lead, self._describer, events, orders.skips, both, self._dialect, replay=Replay(order.id))
        try:
            mark = await sink.publish(messages, live) if messages else None
        except SinkError as error:
            # How far the replay came says nothing of what is told live, which may be behind it.
            if error.told is not None:
                await lead.move_replay(order, error.told, sum(message.position <= error.told for message in messages))
            error.told = None
            raise
        await lead.move_replay(order, events[-1].position, len(messages))
        return mark


async def messages_of(
    lead: Lead,
    describer: Describer,
    events: Sequence[RecordedEvent],
    skips: frozenset[int],
    filters: Sequence[EventFilter],
    dialect: Dialect,
    *,
    replay: Replay | None = None,
) -> tuple[Sequence[RecordedEvent], list[Outgoing]]:
    """The first of `events`, all where they refer to no more than DESCRIBED_BYTES_MAX; and what of those passes every filter, in order."""
    wanted = [event for event in events if event.position not in skips and all(each.may_match(event) for each in filters)]

    def chosen(event: RecordedEvent, path: Path | None) -> bool:
        return all(each.matches_path(event, path) for each in filters)

    described = await describer.describe(lead.connection, wanted, chosen=chosen, bytes_max=DESCRIBED_BYTES_MAX)
    if described.count < len(wanted):
        events = [event for event in events if event.position < wanted[described.count].position]
    return events, [outgoing(each, dialect, replay) for each in described.events]


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
