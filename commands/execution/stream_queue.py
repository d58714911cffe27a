"""The queue of a stream: decides each command on the state that the previous command leaves, and appends them in batches.

A queue has one batch in flight. Its cached state is checked by `append`: a successful append confirms it. A refusal is returned
only if an append or a read confirmed the state after the request arrived.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias
from uuid import UUID

import structlog

from ...domain.documents import shares_most_bytes
from ...domain.errors import ApprovalUnavailable, CatalogError, CommitFailed, CommitStateUnknown
from ...domain.namespace import NamespaceState
from ...domain.streams import State
from ...domain.table import TableState
from ...storage.large_documents import LARGE_BYTES_MIN, DocumentReservation, LargeDocuments, ReservationWaitEnded
from .append_request import NOT_APPENDED_ERRORS, AppendResult
from .contention_backoff import ContentionBackoff
from .decision_writer import DecisionWriter
from .gather import gather_errors
from .handler import CommandResult, Decision, S
from .offload import known_document_size
from .queue_entries import Barrier, QueuedCommand, SharedDocumentSize, UnappendedCommand, fail
from .resolver import OutdatedRead, ResolvedStream

_log = structlog.get_logger("icecore.queues")

STREAM_BATCH_COMMANDS_MAX = 32
STREAM_BATCH_BYTES_MAX = 16 * 1024 * 1024
# A parsed document costs about this many times its bytes.
_STATE_BYTES_PER_DOCUMENT_BYTE = 5
COUNTED_STATE_BYTES_MIN = _STATE_BYTES_PER_DOCUMENT_BYTE * 64 * 1024
"""The response to a command on a smaller state is not counted."""
_LARGE_STATE_BYTES_MIN = _STATE_BYTES_PER_DOCUMENT_BYTE * LARGE_BYTES_MIN

# Outcomes of commands that were not appended because the stream is not in the state they were decided on.
_CONFLICTS = frozenset({"version_conflict", "generation"})
# The changes of a command with such an outcome, if it has any, are in the log, so the commands decided after it hold.
_IN_EFFECT = frozenset({"appended", "recorded"})


_Batch: TypeAlias = list[tuple[QueuedCommand[S], Decision]]


@dataclass(slots=True)
class QueueMetrics:
    """Counters for the metrics: batches by their number of commands, batches whose first command was decided on an outdated state, and
    commands that were refused.
    """

    batch_lengths: Counter[int] = field(default_factory=Counter)
    conflicts: int = 0
    refused: int = 0


class StreamQueue(Generic[S]):
    """The queue of one stream, with a cache of the stream's state."""

    def __init__(
        self,
        stream_id: UUID,
        decision_writer: DecisionWriter,
        metrics: QueueMetrics,
        large_documents: LargeDocuments,
        became_idle: Callable[[UUID], None],
    ) -> None:
        self._stream_id = stream_id
        self._decision_writer = decision_writer
        self._metrics = metrics
        self._large_documents, self._became_idle = large_documents, became_idle
        self.entries: deque[QueuedCommand[S] | Barrier] = deque()
        self.state_bytes = 0
        self.counted_bytes = 0
        self._state: S | None = None
        self._generation = 0
        self._confirmed_at = 0.0
        self._batch_max = STREAM_BATCH_COMMANDS_MAX
        self._task: asyncio.Task[None] | None = None
        self._reservation: DocumentReservation | None = None
        # Responses that share most of their bytes count as one.
        self._shared_size = SharedDocumentSize(0)
        self._backoff = ContentionBackoff()

    @property
    def idle(self) -> bool:
        return self._task is None

    def put(self, entry: "QueuedCommand[S] | Barrier") -> None:
        self.entries.append(entry)
        if isinstance(entry, Barrier) and self._reservation is not None:
            self._reservation.end_wait()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def seed(self, state: S, generation: int, document_size: int, confirmed_at: float) -> None:
        """Sets the state of a stream that this process created, so that its first command need not read it. Ignored if one is known."""
        if self._state is None and self.idle:
            self._state, self._generation, self._confirmed_at = state, generation, confirmed_at
            self.state_bytes = _STATE_BYTES_PER_DOCUMENT_BYTE * document_size
            self._shared_size = SharedDocumentSize(document_size)

    @property
    def generation(self) -> int:
        """The generation of the read models that the state was read from; 0 before the first read."""
        return self._generation

    def forget(self) -> None:
        """Forgets the state, because the stream has changed outside this queue."""
        self._state = None
        self.state_bytes = 0

    async def _run(self) -> None:
        try:
            while self.entries:
                entry = self.entries[0]
                if isinstance(entry, Barrier):
                    self.entries.popleft()
                    entry.arrive()
                    await entry.done.wait()
                else:
                    async with self._large_documents.reservation(lambda: self._barrier() is None) as self._reservation:
                        await self._run_batch(entry.stream, self._reservation)
        finally:
            self._reservation = self._task = None
            self._became_idle(self._stream_id)

    def _barrier(self) -> Barrier | None:
        return next((entry for entry in self.entries if isinstance(entry, Barrier)), None)

    def _barrier_first(self) -> None:
        """Lets a command over several queues pass, because it may have reserved the memory that this queue waits for."""
        if (barrier := self._barrier()) is not None:
            self.entries.remove(barrier)
            self.entries.appendleft(barrier)

    async def _run_batch(self, stream: ResolvedStream[S], reservation: DocumentReservation) -> None:
        """stream -- as the first command resolved it."""
        try:
            if self._state is None:
                await self._read(stream, reservation)
        except ReservationWaitEnded:
            self._barrier_first()
            return
        except Exception as error:
            self._fail_queue(error)
            return
        batch, unappended = await self._decide_batch()
        try:
            await self._finish(batch, unappended, reservation)
        except BaseException as error:
            self.forget()
            failure = error if isinstance(error, Exception) else CommitStateUnknown("The server stopped during the change")
            for command in (*(command for command, _ in batch), *(each.command for each in unappended)):
                fail(command, failure)
            if not isinstance(error, Exception):
                raise
            _log.exception("stream_queue_failed", stream=str(self._stream_id))

    async def _finish(self, batch: "_Batch[S]", unappended: "list[UnappendedCommand[S]]", reservation: DocumentReservation) -> None:
        to_decide_again: list[QueuedCommand[S]] = []
        if any(self._is_reviewed(command) for command, _ in batch):
            batch, unappended, to_decide_again = await self._review(batch, unappended)
        if not batch:
            try:
                again = await self._finish_unappended(unappended, reservation)
            except ReservationWaitEnded:
                self._requeue([*(each.command for each in unappended), *to_decide_again])
                self._barrier_first()
            else:
                self._requeue([*again, *to_decide_again])
            return
        in_effect_count, again = await self._append_batch(batch)
        again += to_decide_again
        # A refusal, or a result without changes, is valid if all commands decided before it were appended. If there were none, it depends
        # on the batch's first state, which is confirmed if the first command was appended, or if it was read after the request arrived.
        for each in unappended:
            confirmed = in_effect_count > 0 or each.holds_in_any_state or each.command.arrived <= self._confirmed_at
            if confirmed and each.commands_before <= in_effect_count:
                self._return_unappended(each)
            else:
                again.append(each.command)
        self._requeue(again)

    async def _read(self, stream: ResolvedStream[S], reservation: DocumentReservation) -> None:
        began = time.monotonic()
        found = await stream.read(reservation)
        if found is None:
            raise OutdatedRead
        self._state, self._generation = found
        size = known_document_size(self._state)
        # Responses to changes of a namespace do not contain its properties.
        self._shared_size = SharedDocumentSize(0 if isinstance(self._state, NamespaceState) else size)
        self.state_bytes = _STATE_BYTES_PER_DOCUMENT_BYTE * size
        self._confirmed_at = began

    async def _decide_batch(self) -> "tuple[_Batch[S], list[UnappendedCommand[S]]]":
        """Takes commands from the queue and decides each on the state that the previous command will leave."""
        batch: _Batch[S] = []
        unappended: list[UnappendedCommand[S]] = []
        state, size = self._state, 0
        assert state is not None
        while self.entries and len(batch) < self._batch_max and size < STREAM_BATCH_BYTES_MAX:
            command = self.entries[0]
            if isinstance(command, Barrier):
                break
            self.entries.popleft()
            if command.future.done():
                continue
            command.begun = True
            try:
                large = self.state_bytes >= _LARGE_STATE_BYTES_MIN
                decision = await command.decide(state, self._generation, self._shared_size, large=large)
            except Exception as refusal:
                unappended.append(UnappendedCommand(command, refusal, len(batch)))
                continue
            if not decision.append_request.must_be_appended:
                unappended.append(UnappendedCommand(command, CommandResult(decision, None), len(batch)))
                continue
            batch.append((command, decision))
            if self.state_bytes >= COUNTED_STATE_BYTES_MIN:
                self._follow_shared_size(state, decision.after)
            state = decision.after or state  # type: ignore[assignment]
            size += sum(len(file.content) for file in decision.files)
        return batch, unappended

    def _follow_shared_size(self, before: S, after: State | None) -> None:
        if isinstance(before, TableState) and isinstance(after, TableState) and not shares_most_bytes(before.document, after.document):
            self._shared_size = SharedDocumentSize(known_document_size(after))

    async def _review(
        self, batch: "_Batch[S]", unappended: "list[UnappendedCommand[S]]"
    ) -> "tuple[_Batch[S], list[UnappendedCommand[S]], list[QueuedCommand[S]]]":
        """Returns the batch up to the first command that the review refuses, the commands that append nothing, and those to decide again.

        A hook's refusal depends on the queue's cached state like any other refusal. Commands after it were decided on a state that will not
        exist. A command without a verdict fails at once, wherever it is in the batch: deciding it again would call an unresponsive
        hook once more for each of them.
        """
        review = self._decision_writer.review
        reviews = [review(command.handler.warehouse, decision) for command, decision in batch if self._is_reviewed(command)]
        outcomes = iter(await asyncio.gather(*reviews, return_exceptions=True))
        for index, (command, _) in enumerate(batch):
            outcome = next(outcomes) if self._is_reviewed(command) else None
            if outcome is None:
                continue
            if not isinstance(outcome, Exception):
                raise outcome
            kept = [each for each in unappended if each.commands_before <= index]
            again = [each.command for each in unappended if each.commands_before > index]
            for later, _ in batch[index + 1 :]:
                failure = next(outcomes) if self._is_reviewed(later) else None
                if isinstance(failure, ApprovalUnavailable):
                    fail(later, failure)
                else:
                    again.append(later)
            return batch[:index], [*kept, UnappendedCommand(command, outcome, index)], again
        return batch, unappended, []

    async def _finish_unappended(
        self, unappended: "list[UnappendedCommand[S]]", reservation: DocumentReservation
    ) -> "list[QueuedCommand[S]]":
        """Finishes commands that append nothing, without a batch, if the state was confirmed after their requests arrived.

        Otherwise reads the state and returns the commands to decide again. Raises ReservationWaitEnded if the wait for memory was ended.
        """
        if any(each.command.arrived > self._confirmed_at and not each.holds_in_any_state for each in unappended):
            began, state, stream = time.monotonic(), self._state, unappended[0].command.stream
            try:
                if state is None or await stream.last_event_id() != state.event_id:
                    await self._read(stream, reservation)
                    return [each.command for each in unappended]
            except ReservationWaitEnded:
                raise
            except Exception as error:
                self.forget()
                for each in unappended:
                    fail(each.command, error)
                return []
            self._confirmed_at = began
        for each in unappended:
            self._return_unappended(each)
        return []

    def _is_reviewed(self, command: "QueuedCommand[S]") -> bool:
        return self._decision_writer.reviews_decisions_of(command.handler.context)

    def _return_unappended(self, unappended: "UnappendedCommand[S]") -> None:
        """Completes a command that appends nothing. If many clients compete, the refusal of a conflicting commit is delayed."""
        self._metrics.refused += isinstance(unappended.error_or_result, Exception)
        if isinstance(unappended.error_or_result, CommitFailed):
            self._backoff.refuse(unappended.finish)
        else:
            unappended.finish()

    async def _append_batch(self, batch: "_Batch[S]") -> "tuple[int, list[QueuedCommand[S]]]":
        """Writes the files of all commands concurrently, and appends.

        Returns the number of commands in effect before the first that is not, and the commands to decide again.
        """
        written, again = await self._write_files(batch)
        if not written:
            return 0, again
        began = time.monotonic()
        try:
            results = await self._decision_writer.append_batch([(command.handler.warehouse, decision) for command, decision in written])
        except CatalogError as error:
            self.forget()
            for command, _ in written:
                fail(command, error)
            if isinstance(error, NOT_APPENDED_ERRORS):
                await self._discard(written)
            # The commands after them were decided on a state that does not exist, or whose existence is unknown.
            return 0, again
        in_effect_count, conflicting = await self._finish_batch(written, results, began)
        return in_effect_count, conflicting + again

    async def _write_files(self, batch: "_Batch[S]") -> "tuple[_Batch[S], list[QueuedCommand[S]]]":
        """Returns the part of the batch before the first file that could not be written, and the commands after it, to decide again."""
        errors = await gather_errors(
            [self._decision_writer.write_files(command.handler.warehouse, decision) for command, decision in batch]
        )
        failed = next((index for index, error in enumerate(errors) if error is not None), None)
        if failed is None:
            return batch, []
        error = errors[failed]
        assert error is not None
        fail(batch[failed][0], error)
        await self._discard(batch[failed:])
        return batch[:failed], [command for command, _ in batch[failed + 1 :]]

    async def _finish_batch(self, batch: "_Batch[S]", results: list[AppendResult], began: float) -> "tuple[int, list[QueuedCommand[S]]]":
        self._metrics.batch_lengths[len(batch)] += 1
        in_effect_count, conflicting, not_appended = len(batch), [], []
        if results[0].outcome in _IN_EFFECT:
            # Before the winner's response: otherwise the winner would often be back first, and win again.
            self._backoff.commit_succeeded()
        for index, ((command, decision), result) in enumerate(zip(batch, results, strict=True)):
            if result.outcome not in _IN_EFFECT:
                in_effect_count = min(in_effect_count, index)
            if result.outcome in _CONFLICTS or result.outcome == "warehouse_changed":
                not_appended.append((command, decision))
                if result.outcome in _CONFLICTS:
                    conflicting.append(command)
                else:
                    # The executor reads the warehouse again.
                    fail(command, OutdatedRead())
                continue
            if not command.future.done():
                command.future.set_result(CommandResult(decision, result))
            if index < in_effect_count:
                self._confirmed_at = began
                if decision.after is not None:
                    self._state = decision.after  # type: ignore[assignment]
                    size = sum(len(file.content) for file in decision.files) or known_document_size(decision.after)
                    self.state_bytes = _STATE_BYTES_PER_DOCUMENT_BYTE * size
        self._batch_max = STREAM_BATCH_COMMANDS_MAX
        if in_effect_count < len(batch):
            self.forget()
            if results[0].outcome in _CONFLICTS:
                # Probably another process writes to this stream, so that a long batch would fail too.
                self._metrics.conflicts += 1
                self._batch_max = 1
                self._backoff.commit_conflicted()
        if not_appended:
            await self._discard(not_appended)
        return in_effect_count, conflicting

    async def _discard(self, batch: "_Batch[S]") -> None:
        """Deletes the files of commands that were not appended."""
        await self._decision_writer.discard_all([(command.handler.warehouse, decision) for command, decision in batch])

    def _requeue(self, commands: Sequence["QueuedCommand[S]"]) -> None:
        """Puts commands back to the front of the queue in their order, unless their time is up."""
        now = time.monotonic()
        for command in sorted(commands, key=lambda command: command.arrived, reverse=True):
            if now > command.deadline:
                # The executor decides a first attempt once more. Otherwise it raises CommitFailed, which is not stored under the
                # Idempotency-Key.
                fail(command, OutdatedRead())
            elif not command.future.done():
                self.entries.appendleft(command)

    def _fail_queue(self, error: Exception) -> None:
        """Fails the commands that wait before the first barrier, because the state cannot be read."""
        self.forget()
        while self.entries and isinstance(self.entries[0], QueuedCommand):
            command = self.entries.popleft()
            assert isinstance(command, QueuedCommand)
            fail(command, error)
