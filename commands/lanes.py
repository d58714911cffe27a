"""Lanes: commands on one stream queue up, each is decided on the state its predecessor leaves, and the chain is appended at once.

A lane has one batch in flight. Its memory of the state is only ever a guess that `append` checks: a success proves it, and a
refusal is given only where the guess was proved after the request came, by an append or by a read.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast
from uuid import UUID

import structlog

from commands.decision import Decision, Relocate
from commands.submission import AppendResult, Submission
from commands.turns import Turns
from domain.errors import ApprovalUnavailable, CatalogError, CommitFailed, ServiceUnavailable, TooManyRequests
from domain.table import TableState
from projections.streams import State

_log = structlog.get_logger("icecore.lanes")

CHAIN_COMMANDS_MAX = 32
CHAIN_BYTES_MAX = 16 * 1024 * 1024
LANE_COMMANDS_MAX = 1_024
LANE_WAIT_SECONDS_MAX = 10.0
PARTS_DECIDED_INLINE_MAX = 2_000
# Idle lanes keep their state, so that the next command on the stream need not read it.
LANES_KEPT_MAX = 1_000
LANES_KEPT_BYTES_MAX = 64 * 1024 * 1024
# A parsed document costs about this many times its bytes.
_STATE_BYTES_PER_DOCUMENT_BYTE = 5

S = TypeVar("S", bound=State)
S_co = TypeVar("S_co", bound=State, covariant=True)
Decide = Callable[[S, int], Decision]
# Outcomes after which the command did not come to effect because the stream is not what it was decided on.
_LOST = frozenset({"head", "generation"})
_EFFECTIVE = frozenset({"appended", "recorded"})


class Stream(Protocol[S_co]):
    """A stream by its id, and how its newest state (with the read models' generation) is read."""

    @property
    def id(self) -> UUID: ...

    async def read(self) -> tuple[S_co, int] | None: ...


class Appending(Protocol):
    """How a chain gets into the log: reviewed where there is a reviewer, then files, then one batch."""

    @property
    def reviews(self) -> bool: ...

    async def review(self, decision: Decision) -> None: ...

    async def write_files(self, decision: Decision) -> None: ...

    async def submit_chain(self, submissions: Sequence[Submission]) -> list[AppendResult]: ...

    async def discard(self, decision: Decision) -> None: ...


@dataclass(slots=True)
class Settled:
    """What became of a command that went through a lane."""

    decision: Decision
    result: AppendResult | None
    """None: nothing to append."""


@dataclass(slots=True, eq=False)
class _Job(Generic[S]):
    decide: Decide[S]
    appending: Appending
    deadline: float
    answer: "asyncio.Future[Settled]"
    arrived: float = field(default_factory=time.monotonic)
    taken: bool = False


@dataclass(slots=True, eq=False)
class _Barrier:
    """A command over several streams: every lane stops at it until it is done."""

    missing: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    refused: bool = False

    def arrive(self) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.reached.set()

    def refuse(self) -> None:
        """The command is let go, unless its work has begun."""
        if self.missing > 0:
            self.refused = True
            self.reached.set()


@dataclass(slots=True)
class LaneFigures:
    """Counts for the metrics: chains, the commands in them, chains that lost to another process."""

    chains: int = 0
    chained: int = 0
    chain_lengths: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    refused: int = 0


class Lanes:
    """The lanes of one process, by stream."""

    def __init__(self) -> None:
        self.figures = LaneFigures()
        self._held_bytes = 0
        self._lanes: OrderedDict[UUID, Lane[State]] = OrderedDict()

    async def run(self, stream: Stream[S], decide: Decide[S], appending: Appending, deadline: float) -> Settled:
        """Decides and appends in the stream's lane.

        Raises what `decide` raises, Relocate too; TooManyRequests where the lane's queue is full or did not move for
        LANE_WAIT_SECONDS_MAX; CommitFailed where others kept winning until `deadline` (monotonic seconds).
        """
        lane = self._lane(stream)
        if len(lane.queue) >= LANE_COMMANDS_MAX:
            raise TooManyRequests(f"{LANE_COMMANDS_MAX} commands on the same object are waiting already")
        job = _Job(decide, appending, deadline, asyncio.get_running_loop().create_future())
        lane.put(job)
        done, _ = await asyncio.wait({job.answer}, timeout=LANE_WAIT_SECONDS_MAX)
        if not done and not job.taken:
            job.answer.cancel()
            raise TooManyRequests(f"The command waited {LANE_WAIT_SECONDS_MAX:.0f} seconds behind others on the same object")
        try:
            # A client that goes away does not undo a command on its way.
            return await asyncio.shield(job.answer)
        finally:
            self._trim(stream.id)

    async def run_together(self, streams: Sequence[Stream[S]], work: Callable[[], Awaitable[Settled]]) -> Settled:
        """Runs `work` while every stream's lane stands still, with nothing of theirs in flight.

        All lanes are joined in one synchronous step, so that two commands over the same streams never wait for each other.
        """
        if not streams:
            return await work()
        barrier = _Barrier(len(streams))
        lanes = [self._lane(stream) for stream in streams]
        for lane in lanes:
            lane.put(barrier)
        try:
            try:
                await asyncio.wait_for(barrier.reached.wait(), LANE_WAIT_SECONDS_MAX)
            except TimeoutError:
                raise TooManyRequests(f"The command waited {LANE_WAIT_SECONDS_MAX:.0f} seconds behind others on the same objects") from None
            if barrier.refused:
                raise _away()
            return await work()
        finally:
            for lane in lanes:
                lane.forget()
            barrier.done.set()

    def refuse_waiting(self) -> None:
        """The log is away: who waits behind a chain whose outcome is being asked for need not wait for that."""
        for lane in self._lanes.values():
            for entry in lane.queue:
                if isinstance(entry, _Barrier):
                    entry.refuse()
                else:
                    _fail(entry, _away())

    @property
    def queued(self) -> int:
        """Commands that wait in some lane."""
        return sum(len(lane.queue) for lane in self._lanes.values())

    def _lane(self, stream: Stream[S]) -> "Lane[S]":
        lane = self._lanes.get(stream.id)
        if lane is None:
            lane = self._lanes[stream.id] = Lane[State](stream, self.figures)
        self._lanes.move_to_end(stream.id)
        # One stream is one kind of thing: whoever names it names its kind.
        return cast("Lane[S]", lane)

    def _trim(self, stream_id: UUID) -> None:
        """Lets the longest idle lanes go while there are too many, or they remember too much."""
        lane = self._lanes.get(stream_id)
        if lane is None:
            return
        self._held_bytes += lane.state_bytes - lane.counted_bytes
        lane.counted_bytes = lane.state_bytes
        if len(self._lanes) <= LANES_KEPT_MAX and self._held_bytes <= LANES_KEPT_BYTES_MAX:
            return
        for old_id in [*self._lanes]:
            old = self._lanes[old_id]
            if old.idle:
                self._held_bytes -= old.counted_bytes
                del self._lanes[old_id]
            if len(self._lanes) <= LANES_KEPT_MAX and self._held_bytes <= LANES_KEPT_BYTES_MAX:
                return


class Lane(Generic[S]):
    """One stream's queue and what is known of its state."""

    def __init__(self, stream: Stream[S], figures: LaneFigures) -> None:
        self._stream = stream
        self._figures = figures
        self.queue: deque[_Job[S] | _Barrier] = deque()
        self.state_bytes = 0
        self.counted_bytes = 0
        self._state: S | None = None
        self._generation = 0
        self._proved_at = 0.0
        self._chain_max = CHAIN_COMMANDS_MAX
        self._task: asyncio.Task[None] | None = None
        self._turns = Turns()

    @property
    def idle(self) -> bool:
        return self._task is None

    def put(self, entry: "_Job[S] | _Barrier") -> None:
        self.queue.append(entry)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"lane-{self._stream.id}")

    def forget(self) -> None:
        """The stream has moved on without this lane: read it again before deciding."""
        self._state = None
        self.state_bytes = 0

    async def _run(self) -> None:
        try:
            while self.queue:
                entry = self.queue[0]
                if isinstance(entry, _Barrier):
                    self.queue.popleft()
                    entry.arrive()
                    await entry.done.wait()
                else:
                    await self._run_chain()
        finally:
            self._task = None

    async def _run_chain(self) -> None:
        try:
            if self._state is None:
                await self._read()
        except Exception as error:
            self._fail_queue(error)
            return
        chain, refused = await self._decide_chain()
        try:
            await self._settle(chain, refused)
        except Exception as error:
            _log.exception("lane_broke", stream=str(self._stream.id))
            self.forget()
            for job in (*(job for job, _ in chain), *(entry.job for entry in refused)):
                _fail(job, error)

    async def _settle(self, chain: "list[tuple[_Job[S], Decision]]", refused: "list[_Refused[S]]") -> None:
        unreviewed: list[_Job[S]] = []
        if any(job.appending.reviews for job, _ in chain):
            chain, refused, unreviewed = await self._review(chain, refused)
        if not chain:
            self._requeue([*await self._settle_refused(refused), *unreviewed])
            return
        broken_at, again = await self._append_chain(chain)
        again += unreviewed
        # A refusal stands if everything it was decided behind came to effect. Behind nothing, it rests on the state the chain began
        # on, which is proved by the first command's effect, or was read after the request came.
        for entry in refused:
            proved = broken_at > 0 or entry.is_fault or entry.job.arrived <= self._proved_at
            if proved and entry.behind <= broken_at:
                self._give(entry)
            else:
                again.append(entry.job)
        self._requeue(again)

    async def _read(self) -> None:
        began = time.monotonic()
        found = await self._stream.read()
        if found is None:
            raise Relocate
        self._state, self._generation = found
        self._proved_at = began

    async def _decide_chain(self) -> "tuple[list[tuple[_Job[S], Decision]], list[_Refused[S]]]":
        """Takes jobs from the queue and decides each on the state the one before will leave."""
        chain: list[tuple[_Job[S], Decision]] = []
        refused: list[_Refused[S]] = []
        state, size = self._state, 0
        assert state is not None
        while self.queue and len(chain) < self._chain_max and size < CHAIN_BYTES_MAX:
            job = self.queue[0]
            if isinstance(job, _Barrier):
                break
            self.queue.popleft()
            if job.answer.done():
                continue
            job.taken = True
            try:
                decision = await _decided(job, state, self._generation)
            except Exception as refusal:
                refused.append(_Refused(job, refusal, len(chain)))
                continue
            if not decision.submission.must_be_appended:
                refused.append(_Refused(job, Settled(decision, None), len(chain)))
                continue
            chain.append((job, decision))
            state = decision.after or state  # type: ignore[assignment]
            size += sum(len(file.document) for file in decision.files)
        return chain, refused

    async def _review(
        self, chain: "list[tuple[_Job[S], Decision]]", refused: "list[_Refused[S]]"
    ) -> "tuple[list[tuple[_Job[S], Decision]], list[_Refused[S]], list[_Job[S]]]":
        """The part of the chain that nobody has anything against, the refusals, and who is to be decided again.

        A hook's refusal rests on the lane's guess as any other does. What was decided behind it rests on what will not be. Who got no
        verdict hears that at once, wherever it stood: a hook that hangs would else be waited for once for each of them.
        """
        reviewed = await asyncio.gather(
            *(job.appending.review(decision) for job, decision in chain if job.appending.reviews), return_exceptions=True
        )
        outcomes = iter(reviewed)
        for index, (job, _) in enumerate(chain):
            outcome = next(outcomes) if job.appending.reviews else None
            if outcome is None:
                continue
            if not isinstance(outcome, Exception):
                raise outcome
            kept = [entry for entry in refused if entry.behind <= index]
            again = [entry.job for entry in refused if entry.behind > index]
            for behind, _ in chain[index + 1 :]:
                failure = next(outcomes) if behind.appending.reviews else None
                if isinstance(failure, ApprovalUnavailable):
                    _fail(behind, failure)
                else:
                    again.append(behind)
            return chain[:index], [*kept, _Refused(job, outcome, index)], again
        return chain, refused, []

    async def _settle_refused(self, refused: "list[_Refused[S]]") -> "list[_Job[S]]":
        """Gives refusals that stand behind nothing, on a state that was proved after their requests came; else who is decided again."""
        if any(entry.job.arrived > self._proved_at and not entry.is_fault for entry in refused):
            known = self._state
            try:
                await self._read()
            except Exception as error:
                self.forget()
                for entry in refused:
                    _fail(entry.job, error)
                return []
            if known is None or self._state is None or known.event_id != self._state.event_id:
                return [entry.job for entry in refused]
            # The one that was folded here shares its parts with what comes next.
            self._state = known
        for entry in refused:
            self._give(entry)
        self._figures.refused += len(refused)
        return []

    def _give(self, entry: "_Refused[S]") -> None:
        """A commit that lost to another waits for its turn where there is a crowd."""
        if isinstance(entry.outcome, CommitFailed):
            self._turns.refuse(entry.settle)
        else:
            entry.settle()

    async def _append_chain(self, chain: "list[tuple[_Job[S], Decision]]") -> "tuple[int, list[_Job[S]]]":
        """Writes the files side by side and appends.

        How many came to effect before the first that did not, and who is to be decided again.
        """
        whole, again = await self._write_files(chain)
        if not whole:
            return 0, again
        began = time.monotonic()
        try:
            results = await whole[0][0].appending.submit_chain([decision.submission for _, decision in whole])
        except CatalogError as error:
            self.forget()
            for job, _ in whole:
                _fail(job, error)
            # What was decided behind them rests on something that did not happen, or that nobody knows of.
            return 0, again
        broken_at, lost = await self._settle_chain(whole, results, began)
        return broken_at, lost + again

    async def _write_files(self, chain: "list[tuple[_Job[S], Decision]]") -> "tuple[list[tuple[_Job[S], Decision]], list[_Job[S]]]":
        """The part of the chain whose files stand. What is behind a file that could not be written was decided on what will not be."""
        written = await asyncio.gather(*(job.appending.write_files(decision) for job, decision in chain), return_exceptions=True)
        bad = next((index for index, outcome in enumerate(written) if outcome is not None), None)
        if bad is None:
            return chain, []
        failure = written[bad]
        assert failure is not None
        _fail(chain[bad][0], failure)
        for job, decision in chain[bad:]:
            await job.appending.discard(decision)
        return chain[:bad], [job for job, _ in chain[bad + 1 :]]

    async def _settle_chain(
        self, chain: "list[tuple[_Job[S], Decision]]", results: list[AppendResult], began: float
    ) -> "tuple[int, list[_Job[S]]]":
        self._figures.chains += 1
        self._figures.chained += len(chain)
        self._figures.chain_lengths[len(chain)] += 1
        broken_at, lost = len(chain), []
        if results[0].outcome in _EFFECTIVE:
            # Before the winner hears of it: else it is back first, and wins again.
            self._turns.came_through()
        for index, ((job, decision), result) in enumerate(zip(chain, results, strict=True)):
            if result.outcome not in _EFFECTIVE:
                broken_at = min(broken_at, index)
            if result.outcome in _LOST:
                lost.append(job)
                await job.appending.discard(decision)
                continue
            if not job.answer.done():
                job.answer.set_result(Settled(decision, result))
            if index < broken_at:
                self._proved_at = began
                if decision.after is not None:
                    self._state = decision.after  # type: ignore[assignment]
                    self.state_bytes = _STATE_BYTES_PER_DOCUMENT_BYTE * sum(len(file.document) for file in decision.files)
        self._chain_max = CHAIN_COMMANDS_MAX
        if broken_at < len(chain):
            self.forget()
            if results[0].outcome in _LOST:
                # Another process writes this stream: long chains would only be thrown away.
                self._figures.lost += 1
                self._chain_max = 1
                self._turns.lost()
        return broken_at, lost

    def _requeue(self, jobs: Sequence["_Job[S]"]) -> None:
        """Back to the front, in the order they came, unless their time is up."""
        now = time.monotonic()
        for job in sorted(jobs, key=lambda job: job.arrived, reverse=True):
            if now > job.deadline:
                _fail(job, CommitFailed("Others kept changing the same thing: try again"))
            elif not job.answer.done():
                self.queue.appendleft(job)

    def _fail_queue(self, error: Exception) -> None:
        """The state cannot be read: whoever waits for it hears why."""
        self.forget()
        while self.queue and isinstance(self.queue[0], _Job):
            job = self.queue.popleft()
            assert isinstance(job, _Job)
            _fail(job, error)


@dataclass(slots=True)
class _Refused(Generic[S]):
    """A command that appends nothing, decided behind the first `behind` of a chain."""

    job: _Job[S]
    outcome: Exception | Settled
    behind: int

    @property
    def is_fault(self) -> bool:
        """Something broke, or gave no answer, which no newer state would mend."""
        if isinstance(self.outcome, ApprovalUnavailable):
            return True
        return isinstance(self.outcome, Exception) and not isinstance(self.outcome, CatalogError | Relocate)

    def settle(self) -> None:
        if isinstance(self.outcome, Exception):
            _fail(self.job, self.outcome)
        elif not self.job.answer.done():
            self.job.answer.set_result(self.outcome)


async def _decided(job: "_Job[S]", state: S, generation: int) -> Decision:
    """On a large document that takes a tenth of a second: in a thread, so that others get their turns meanwhile."""
    if isinstance(state, TableState) and sum(map(len, state.document.parts.values())) > PARTS_DECIDED_INLINE_MAX:
        return await asyncio.to_thread(job.decide, state, generation)
    return job.decide(state, generation)


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("The log cannot be reached", retry_after_seconds=1)


def _fail(job: "_Job[S]", error: BaseException) -> None:
    if not job.answer.done():
        job.answer.set_exception(error)
        # A client that went away leaves nobody to hear it.
        job.answer.exception()
