"""What every command takes: the read models to decide on, the lanes, the committer, the stores, and the loop that decides again."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import structlog

from commands import fault_points, idempotency, proposals
from commands.approval import Approval, HeldBack
from commands.committer import Committer
from commands.context import Answer, CommandContext
from commands.deciding import is_large_request
from commands.decision import Decision, Relocate
from commands.idempotency import Remembered
from commands.lane import S_co, Stream
from commands.lane_queue import Decide, Settled, SharedBytes
from commands.lanes import Lanes
from commands.metrics_reports import MetricsReports
from commands.names_known import NamesKnown
from commands.replays import Replays
from commands.side_by_side import side_by_side
from commands.staged_parts import StagedPartsLost, remove_staged_parts
from commands.submission import NOT_APPENDED, AppendResult, Submission
from commands.table_files import place_taken
from domain.errors import CatalogError, CommitFailed, InternalError, NoSuchWarehouse, UnsupportedOperation
from projections.connections import Connection
from projections.streams import State
from projections.warehouses import log_head
from queries.read_side import ReadSide
from queries.warehouse import Warehouse
from security.secrets import SecretStore
from storage.locations import StorageLocation
from storage.metadata_files import write_metadata
from storage.object_store import ObjectStore

_log = structlog.get_logger("icecore.commands")

# How long a command that loses to others decides again before it gives up.
DECIDE_SECONDS_MAX = 10

S = TypeVar("S", bound=State)


class NamedStream(Stream[S_co], Protocol[S_co]):
    """A stream that was found by a name."""

    def check(self, state: State) -> None:
        """Raises Relocate where the state no longer is what the name stood for."""


class WriteSide:
    """The parts a command is written with; `now_ms` is the clock."""

    def __init__(
        self,
        reads: ReadSide,
        committer: Committer,
        secrets: SecretStore,
        metrics_reports: MetricsReports,
        *,
        decide_seconds_max: float = DECIDE_SECONDS_MAX,
    ) -> None:
        self.reads = reads
        self.secrets = secrets
        self.metrics_reports = metrics_reports
        self.large_documents = reads.large_documents
        self.lanes = Lanes(self.large_documents)
        self._replays = Replays(reads)
        self.names_known = NamesKnown()
        self.approval: Approval | None = None
        """The hooks every change is shown to; None where there are none."""
        self.committer = committer
        committer.on_away = self.lanes.refuse_waiting
        self._decide_seconds_max = decide_seconds_max

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        return self.reads.connection()

    async def store(self, warehouse: Warehouse) -> ObjectStore:
        return await self.reads.store(warehouse)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def submit(self, submission: Submission) -> AppendResult:
        return await self.committer.submit(submission)

    async def execute(self, context: CommandContext, warehouse: Warehouse, decide: Callable[[], Awaitable[Decision]]) -> Answer:
        """For a command that begins a stream: decided on what the read models say, again while others take what it wants."""
        appending = _Appending(self, context, warehouse)

        async def attempt(deadline: float) -> Settled:
            decision = await decide()
            if not decision.submission.must_be_appended:
                return Settled(decision, None)
            began = time.monotonic()
            settled = await appending.append(decision)
            if decision.begun is not None and settled.result is not None and settled.result.outcome == "appended":
                decision.begun(began)
            return settled

        return await self._until_settled(context, warehouse, attempt)

    async def execute_in_lane(
        self, context: CommandContext, warehouse: Warehouse, locate: Callable[[], Awaitable[NamedStream[S]]], decide: Decide[S]
    ) -> Answer:
        """For a command on one stream that is decided on its state alone: in a chain with others on the same stream."""
        appending = _Appending(self, context, warehouse)

        async def attempt(deadline: float) -> Settled:
            stream = await locate()

            def decide_what_was_named(state: S, generation: int) -> Decision:
                stream.check(state)
                return decide(state, generation)

            return await self.lanes.run(stream, decide_what_was_named, appending, deadline)

        return await self._until_settled(context, warehouse, attempt)

    async def execute_together(
        self,
        context: CommandContext,
        warehouse: Warehouse,
        locate: Callable[[], Awaitable[Sequence[Stream[State]]]],
        decide: Callable[[], Awaitable[Decision]],
    ) -> Answer:
        """For a command over several streams, or one that must ask more than its stream's state: its lanes stand still meanwhile."""
        appending = _Appending(self, context, warehouse)

        async def attempt(deadline: float) -> Settled:
            async def work() -> Settled:
                decision = await decide()
                if not decision.submission.must_be_appended:
                    return Settled(decision, None)
                return await appending.append(decision)

            return await self.lanes.run_together(await locate(), work)

        return await self._until_settled(context, warehouse, attempt)

    async def _until_settled(self, context: CommandContext, warehouse: Warehouse, attempt: Callable[[float], Awaitable[Settled]]) -> Answer:
        """Attempts until the command came to effect or is refused."""
        try:
            return await self._settled(context, warehouse, attempt)
        except CatalogError as refusal:
            # Frames behind here hold the refusal and the documents: a cycle that would keep them until a collection.
            refusal.__traceback__ = None
            raise

    async def _settled(self, context: CommandContext, warehouse: Warehouse, attempt: Callable[[float], Awaitable[Settled]]) -> Answer:
        """A refusal that carries a key is recorded before it is answered, so that the key always gets the same answer."""
        if warehouse.as_of is not None:
            raise UnsupportedOperation(
                f"Warehouse {warehouse.name} is read as of position {warehouse.as_of}: a past state cannot be changed"
            )
        if context.idempotency_key is not None:
            async with self.connection() as connection:
                remembered = await idempotency.find(connection, context)
            # Not with a connection in hand: reading it may have to wait for others who need one.
            if remembered is not None:
                return await self._again(context, warehouse, remembered)
        deadline = time.monotonic() + self._decide_seconds_max
        while True:
            try:
                settled = await attempt(deadline)
            except (Relocate, StagedPartsLost):
                settled = None
            except HeldBack as held:
                return await self._held(context, warehouse, held)
            except CatalogError as refusal:
                return await self._refused(context, warehouse, refusal)
            answer = None if settled is None else await self._answered(context, warehouse, settled)
            if answer is not None:
                return answer
            if time.monotonic() > deadline:
                raise CommitFailed("Other requests kept changing the same object; try again")

    async def _answered(self, context: CommandContext, warehouse: Warehouse, settled: Settled) -> Answer | None:
        """The answer, or None where another command came first."""
        decision, result = settled.decision, settled.result
        if result is None:
            return decision.answer(await self._log_head())
        match result.outcome:
            case "appended" | "recorded" if decision.submission.context.approves is not None:
                return Answer(decision.record.status, decision.record.body, result.position)
            case "appended" | "recorded":
                return decision.answer(result.position)
            case "replayed" | "key_reused":
                await self.discard(warehouse, decision)
                return await self._replayed(context, warehouse, result)
        await self.discard(warehouse, decision)
        match result.outcome:
            case "location":
                return await self._refused(context, warehouse, place_taken(result.detail or ""))
            case "parent" if result.detail == str(warehouse.id):
                # Warehouses are never dropped: the database was restored to a time before this one.
                self.reads.warehouses.clear()
                raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse.name}")
            case "error":
                raise InternalError("The log refused the command")
        return None

    async def _refused(self, context: CommandContext, warehouse: Warehouse, refusal: CatalogError) -> Answer:
        """Raises the refusal, once it is remembered if it carries a key."""
        if context.approves is not None and refusal.deterministic:
            refusal = await proposals.why_closed(self, context, warehouse, refusal)
        if context.idempotency_key is None or not refusal.deterministic:
            raise refusal
        result = await self.submit(Submission(context, record=proposals.remembered(refusal)))
        if result.outcome in ("replayed", "key_reused"):
            return await self._replayed(context, warehouse, result)
        raise refusal

    async def _held(self, context: CommandContext, warehouse: Warehouse, held: HeldBack) -> Answer:
        """Raises the refusal that names the proposal, which is in the log by then and remembered by the request's key."""
        refusal, result = await proposals.hold(self, context, warehouse, held)
        if result is None:
            return await self._refused(context, warehouse, refusal)
        if result.outcome in ("replayed", "key_reused"):
            return await self._replayed(context, warehouse, result)
        raise refusal

    async def _replayed(self, context: CommandContext, warehouse: Warehouse, result: AppendResult) -> Answer:
        if result.outcome == "key_reused":
            raise idempotency.key_reused()
        assert result.record is not None
        assert result.detail is not None
        return await self._again(context, warehouse, Remembered(result.record, result.position, result.detail))

    async def _again(self, context: CommandContext, warehouse: Warehouse, remembered: Remembered) -> Answer:
        record = remembered.record
        if record.status >= 400:
            raise proposals.told_again(record)
        return await self._replays.answer(context, warehouse, remembered)

    async def _log_head(self) -> int:
        async with self.connection() as connection:
            return await log_head(connection)

    async def discard(self, warehouse: Warehouse, decision: Decision) -> None:
        """Takes files away that no event names, and staged parts; what stays is an orphan, and harms nobody."""
        await self.delete(warehouse, [file.location for file in decision.files])
        await self.discard_staged(decision)

    async def discard_staged(self, decision: Decision) -> None:
        for table_id, _ in decision.submission.staged:
            try:
                await remove_staged_parts(self.connection, table_id)
            except CatalogError as error:
                _log.warning("staged_parts_left", table_id=str(table_id), error=error.message)

    async def delete(self, warehouse: Warehouse, files: Sequence[StorageLocation]) -> None:
        if not files:
            return
        try:
            await (await self.store(warehouse)).delete(files)
        except CatalogError as error:
            _log.warning("metadata_file_left", files=[str(file) for file in files], error=error.message)


class _Appending:
    """How one request's decisions get into the log: reviewed, then files, then one batch."""

    def __init__(self, write: WriteSide, context: CommandContext, warehouse: Warehouse) -> None:
        self._write = write
        self._context = context
        self._warehouse = warehouse
        self.reviews = write.approval is not None or context.approves is not None
        self.is_large = is_large_request(context)

    def make_room(self, document: SharedBytes) -> None:
        """For an answer with the document. Raises TooManyRequests."""
        if self._context.make_room is not None:
            self._context.make_room(len(document), document)

    async def review(self, decision: Decision) -> None:
        """Hooks look at the change; where it is an approved proposal's, the approval is added to it. Raises what refuses it."""
        if self._write.approval is not None and decision.submission.changes:
            await self._write.approval.review(self._context, self._warehouse, decision.submission.changes)
        if self._context.approves is not None:
            await proposals.add_approval(self._write, self._warehouse, decision, self._context)

    async def write_files(self, decision: Decision) -> None:
        decision.submission.record = decision.record
        if decision.files:
            store = await self._write.store(self._warehouse)
            for failure in await side_by_side([write_metadata(store, file.location, file.document) for file in decision.files]):
                if failure is not None:
                    raise failure
            if fault_points.SWITCHED_ON:
                await fault_points.reach("commit.after_metadata_put")

    async def submit_chain(self, submissions: Sequence[Submission]) -> list[AppendResult]:
        return await self._write.committer.submit_chain(submissions)

    async def discard(self, decision: Decision) -> None:
        await self._write.discard(self._warehouse, decision)

    async def append(self, decision: Decision) -> Settled:
        """One command by itself."""
        if self.reviews:
            try:
                await self.review(decision)
            except CatalogError:
                # No file was written yet, and nothing else of it is anywhere.
                await self._write.discard_staged(decision)
                raise
        try:
            await self.write_files(decision)
            (result,) = await self.submit_chain([decision.submission])
        except NOT_APPENDED:
            # Where that is in doubt, the error is another.
            await self.discard(decision)
            raise
        return Settled(decision, result)
