"""The lanes of one process, by stream: who is let in, who waits for several of them, and which are remembered."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import cast
from uuid import UUID

from commands.lane import Lane, LaneFigures, Stream
from commands.lane_queue import Appending, Barrier, Decide, Job, S, Settled, away, fail
from domain.errors import TooManyRequests
from projections.streams import State
from storage.large_documents import LargeDocuments

LANE_COMMANDS_MAX = 1_024
LANE_WAIT_SECONDS_MAX = 10.0
# Idle lanes keep their state, so that the next command on the stream need not read it.
LANES_KEPT_MAX = 1_000
LANES_KEPT_BYTES_MAX = 64 * 1024 * 1024
# Of the newest alone.
LANE_KEPT_BYTES_MAX = 2 * LANES_KEPT_BYTES_MAX


class Lanes:
    """The lanes of one process, by stream."""

    def __init__(self, large_documents: LargeDocuments) -> None:
        self._large_documents = large_documents
        self.figures = LaneFigures()
        self._held_bytes = 0
        self._generation = 0
        self._lanes: OrderedDict[UUID, Lane[State]] = OrderedDict()

    async def run(self, stream: Stream[S], decide: Decide[S], appending: Appending, deadline: float) -> Settled:
        """Decides and appends in the stream's lane.

        Raises what `decide` raises, Relocate too; TooManyRequests where the lane's queue is full or did not move for
        LANE_WAIT_SECONDS_MAX; CommitFailed where others kept winning until `deadline` (monotonic seconds).
        """
        lane = self._lane(stream)
        if len(lane.queue) >= LANE_COMMANDS_MAX:
            raise TooManyRequests(f"{LANE_COMMANDS_MAX} commands on the same object are waiting already")
        loop = asyncio.get_running_loop()
        job = Job(decide, appending, deadline, loop.create_future())
        lane.put(job)
        too_long = loop.call_later(LANE_WAIT_SECONDS_MAX, _refuse_untaken, job)
        try:
            # A client that goes away leaves a command nobody waits for: not begun it is let go, on its way it is not undone.
            return await job.answer
        finally:
            too_long.cancel()

    async def run_together(self, streams: Sequence[Stream[S]], work: Callable[[], Awaitable[Settled]]) -> Settled:
        """Runs `work` while every stream's lane stands still, with nothing of theirs in flight.

        All lanes are joined in one synchronous step, so that two commands over the same streams never wait for each other.
        """
        if not streams:
            return await work()
        # Two names may lead to one stream where the names were swapped meanwhile: one of them is found to be out of date then.
        lanes = [self._lane(stream) for stream in {stream.id: stream for stream in streams}.values()]
        barrier = Barrier(len(lanes))
        for lane in lanes:
            lane.put(barrier)
        try:
            try:
                await asyncio.wait_for(barrier.reached.wait(), LANE_WAIT_SECONDS_MAX)
            except TimeoutError:
                raise TooManyRequests(
                    f"The request waited {LANE_WAIT_SECONDS_MAX:.0f} seconds for other requests on the same objects; try again later"
                ) from None
            if barrier.refused:
                raise away()
            return await work()
        finally:
            for lane in lanes:
                lane.forget()
            barrier.done.set()

    def begin(self, stream: Stream[S], state: S, document_bytes: int, proved_at: float) -> None:
        """A stream was begun, and was in `state` no earlier than at `proved_at`; remembering that takes as much as its document asks for.

        The generation of the read models is the newest that any lane read: a guess that append checks, as it does the state. Before
        the first nothing is remembered.
        """
        if self._generation:
            self._lane(stream).begin(state, self._generation, document_bytes, proved_at)
            self._trim(stream.id)

    def refuse_waiting(self) -> None:
        """The log is away: who waits behind a chain whose outcome is being asked for need not wait for that."""
        for lane in self._lanes.values():
            for entry in lane.queue:
                if isinstance(entry, Barrier):
                    entry.refuse()
                else:
                    fail(entry, away())

    @property
    def queued(self) -> int:
        """Commands that wait in some lane."""
        return sum(len(lane.queue) for lane in self._lanes.values())

    def _lane(self, stream: Stream[S]) -> "Lane[S]":
        lane = self._lanes.get(stream.id)
        if lane is None:
            lane = self._lanes[stream.id] = Lane[State](stream, self.figures, self._large_documents, self._trim)
        self._lanes.move_to_end(stream.id)
        # One stream is one kind of thing: whoever names it names its kind.
        return cast("Lane[S]", lane)

    def _trim(self, stream_id: UUID) -> None:
        """Lets the longest idle lanes go while there are too many, or they remember too much."""
        lane = self._lanes.get(stream_id)
        if lane is None:
            return
        self._generation = max(self._generation, lane.generation)
        self._held_bytes += lane.state_bytes - lane.counted_bytes
        lane.counted_bytes = lane.state_bytes
        if len(self._lanes) <= LANES_KEPT_MAX and self._held_bytes <= LANES_KEPT_BYTES_MAX:
            return
        newest = next(reversed(self._lanes))
        for old_id in [*self._lanes]:
            old = self._lanes[old_id]
            # The newest may be larger than all together may: most commits to a large table follow one another.
            if old.idle and (old_id != newest or old.counted_bytes > LANE_KEPT_BYTES_MAX):
                self._held_bytes -= old.counted_bytes
                del self._lanes[old_id]
            if len(self._lanes) <= LANES_KEPT_MAX and self._held_bytes <= LANES_KEPT_BYTES_MAX:
                return


def _refuse_untaken(job: "Job[S]") -> None:
    if not job.taken:
        fail(
            job,
            TooManyRequests(
                f"The request waited {LANE_WAIT_SECONDS_MAX:.0f} seconds for other requests on the same object; try again later"
            ),
        )
