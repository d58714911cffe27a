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

from ...domain.errors import ApprovalUnavailable, CatalogError, CommitFailed, CommitStateUnknown, TooManyRequests
from ...domain.namespace import NamespaceState
from ...storage.large_documents import LARGE_BYTES_MIN, DocumentReservation, LargeDocuments, ReservationWaitEnded
from .append_request import NOT_APPENDED_ERRORS, AppendResult
from .contention_backoff import ContentionBackoff
from .decision_writer import DecisionWriter
from .gather import gather_errors
from .handler import CommandResult, Decision, S
from .offload import known_document_size
from .queue_entries import Barrier, QueuedCommand, SharedDocumentSize, fail
from .resolver import OutdatedRead, ResolvedStream

_log = structlog.get_logger("icecore.queues")

STREAM_BATCH_COMMANDS_MAX = 32
STREAM_BATCH_BYTES_MAX = 16 * 1024 * 1024
# A parsed document costs about this many times its bytes.
_STATE_BYTES_PER_DOCUMENT_BYTE = 5
_LARGE_STATE_BYTES_MIN = _STATE_BYTES_PER_DOCUMENT_BYTE * LARGE_BYTES_MIN

# Outcomes of commands that were not appended because the stream is not in the state they were decided on.
_CONFLICTS = frozenset({"version_conflict", "generation"})
# The changes of a command with such an outcome, if it has any, are in the log, so the commands decided after it hold.
_IN_EFFECT = frozenset({"appended", "recorded"})


_Batch: TypeAlias = list[tuple[QueuedCommand[S], Decision]]


@dataclass(slots=True)
class QueueMetrics:
    """Counters for the metrics: batches by their number of commands, batches that conflicted with a commit of another process, and commands
    that were refused.
    """

    batch_lengths: Counter[int] = field(default_factory=Counter)
    conflicts: int = 0
    refused: int = 0


class StreamQueue(Generic[S]):
    """The queue of one stream, with a cache of the stream's state."""

    def __init__(
        self,
        stream: ResolvedStream[S],
        decision_writer: DecisionWriter,
        metrics: QueueMetrics,
        large_documents: LargeDocuments,
        became_idle: Callable[[UUID], None],
    ) -> None:
        self._stream = stream
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
        # Responses share the bytes of the document that was read, and keep them in memory.
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
                        await self._run_batch(self._reservation)
        finally:
            self._reservation = self._task = None
            self._became_idle(self._stream.id)

    def _barrier(self) -> Barrier | None:
        return next((entry for entry in self.entries if isinstance(entry, Barrier)), None)

    def _barrier_first(self) -> None:
        """Lets a command over several queues pass, because it may have reserved the memory that this queue waits for."""
        if (barrier := self._barrier()) is not None:
            self.entries.remove(barrier)
            self.entries.appendleft(barrier)

    async def _run_batch(self, reservation: DocumentReservation) -> None:
        try:
            if self._state is None:
                await self._read(reservation)
        except ReservationWaitEnded:
            self._barrier_first()
            return
        except Exception as error:
            self._fail_queue(error)
            return
        batch, without_append = await self._decide_batch()
        try:
            await self._finish(batch, without_append, reservation)
        except BaseException as error:
            self.forget()
            failure = error if isinstance(error, Exception) else CommitStateUnknown("The server stopped during the change")
            for command in (*(command for command, _ in batch), *(each.command for each in without_append)):
                fail(command, failure)
            if not isinstance(error, Exception):
                raise
            _log.exception("stream_queue_failed", stream=str(self._stream.id))

    async def _finish(self, batch: "_Batch[S]", without_append: "list[_WithoutAppend[S]]", reservation: DocumentReservation) -> None:
        to_decide_again: list[QueuedCommand[S]] = []
        if any(self._is_reviewed(command) for command, _ in batch):
            batch, without_append, to_decide_again = await self._review(batch, without_append)
        if not batch:
            try:
                again = await self._finish_without_append(without_append, reservation)
            except ReservationWaitEnded:
                self._requeue([*(each.command for each in without_append), *to_decide_again])
                self._barrier_first()
            else:
                self._requeue([*again, *to_decide_again])
            return
        in_effect_count, again = await self._append_batch(batch)
        again += to_decide_again
        # A refusal, or that nothing changes, is valid if every command before it was appended. If there was none, it depends on the
        # batch's first state, which is confirmed if the first command was appended, or if it was read after the request arrived.
        for each in without_append:
            confirmed = in_effect_count > 0 or each.holds_in_any_state or each.command.arrived <= self._confirmed_at
            if confirmed and each.commands_before <= in_effect_count:
                self._return_without_append(each)
            else:
                again.append(each.command)
        self._requeue(again)

    async def _read(self, reservation: DocumentReservation) -> None:
        began = time.monotonic()
        found = await self._stream.read(reservation)
        if found is None:
            raise OutdatedRead
        self._state, self._generation = found
        size = known_document_size(self._state)
        # Responses to changes of a namespace do not contain its properties.
        self._shared_size = SharedDocumentSize(0 if isinstance(self._state, NamespaceState) else size)
        self.state_bytes = _STATE_BYTES_PER_DOCUMENT_BYTE * size
        self._confirmed_at = began

    async def _decide_batch(self) -> "tuple[_Batch[S], list[_WithoutAppend[S]]]":
        """Takes commands from the queue and decides each on the state that the previous command will leave."""
        batch: _Batch[S] = []
        without_append: list[_WithoutAppend[S]] = []
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
                without_append.append(_WithoutAppend(command, refusal, len(batch)))
                continue
            if not decision.append_request.must_be_appended:
                without_append.append(_WithoutAppend(command, CommandResult(decision, None), len(batch)))
                continue
            batch.append((command, decision))
            state = decision.after or state  # type: ignore[assignment]
            size += sum(len(file.content) for file in decision.files)
        return batch, without_append

    async def _review(
        self, batch: "_Batch[S]", without_append: "list[_WithoutAppend[S]]"
    ) -> "tuple[_Batch[S], list[_WithoutAppend[S]], list[QueuedCommand[S]]]":
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
            kept = [each for each in without_append if each.commands_before <= index]
            again = [each.command for each in without_append if each.commands_before > index]
            for later, _ in batch[index + 1 :]:
                failure = next(outcomes) if self._is_reviewed(later) else None
                if isinstance(failure, ApprovalUnavailable):
                    fail(later, failure)
                else:
                    again.append(later)
            return batch[:index], [*kept, _WithoutAppend(command, outcome, index)], again
        return batch, without_append, []

    async def _finish_without_append(
        self, without_append: "list[_WithoutAppend[S]]", reservation: DocumentReservation
    ) -> "list[QueuedCommand[S]]":
        """Finishes commands that append nothing, without a batch, if the state was confirmed after their requests arrived.

        Otherwise reads the state and returns the commands to decide again. Raises ReservationWaitEnded if the wait for memory was ended.
        """
        if any(each.command.arrived > self._confirmed_at and not each.holds_in_any_state for each in without_append):
            began, state = time.monotonic(), self._state
            try:
                if state is None or await self._stream.last_event_id() != state.event_id:
                    await self._read(reservation)
                    return [each.command for each in without_append]
            except ReservationWaitEnded:
                raise
            except Exception as error:
                self.forget()
                for each in without_append:
                    fail(each.command, error)
                return []
            self._confirmed_at = began
        for each in without_append:
            self._return_without_append(each)
        return []

    def _is_reviewed(self, command: "QueuedCommand[S]") -> bool:
        return self._decision_writer.reviews_decisions_of(command.handler.context)

    def _return_without_append(self, without_append: "_WithoutAppend[S]") -> None:
        """Delays the refusal of a commit that conflicted with another, if many clients compete."""
        self._metrics.refused += isinstance(without_append.error_or_result, Exception)
        if isinstance(without_append.error_or_result, CommitFailed):
            self._backoff.refuse(without_append.finish)
        else:
            without_append.finish()

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
            if isinstance(error, NOT_APPENDED_ERRORS):
                await gather_errors([self._decision_writer.discard(command.handler.warehouse, decision) for command, decision in written])
            for command, _ in written:
                fail(command, error)
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
        for command, decision in batch[failed:]:
            await self._decision_writer.discard(command.handler.warehouse, decision)
        return batch[:failed], [command for command, _ in batch[failed + 1 :]]

    async def _finish_batch(self, batch: "_Batch[S]", results: list[AppendResult], began: float) -> "tuple[int, list[QueuedCommand[S]]]":
        self._metrics.batch_lengths[len(batch)] += 1
        in_effect_count, conflicting = len(batch), []
        if results[0].outcome in _IN_EFFECT:
            # Before the winner's response: otherwise the winner would often be back first, and win again.
            self._backoff.commit_succeeded()
        for index, ((command, decision), result) in enumerate(zip(batch, results, strict=True)):
            if result.outcome not in _IN_EFFECT:
                in_effect_count = min(in_effect_count, index)
            if result.outcome in _CONFLICTS:
                conflicting.append(command)
                await self._decision_writer.discard(command.handler.warehouse, decision)
                continue
            if result.outcome == "warehouse_changed":
                # The executor reads the warehouse again.
                await self._decision_writer.discard(command.handler.warehouse, decision)
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
                # Another process writes to this stream, so a long batch would probably fail too.
                self._metrics.conflicts += 1
                self._batch_max = 1
                self._backoff.commit_conflicted()
        return in_effect_count, conflicting

    def _requeue(self, commands: Sequence["QueuedCommand[S]"]) -> None:
        """Puts commands back to the front of the queue in their order, unless their time is up."""
        now = time.monotonic()
        for command in sorted(commands, key=lambda command: command.arrived, reverse=True):
            if now > command.deadline:
                # The executor's deadline has passed too: it raises CommitFailed, which is not stored under the Idempotency-Key.
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


@dataclass(slots=True)
class _WithoutAppend(Generic[S]):
    """A command that appends nothing (refused or unchanged), decided after the first `commands_before` commands of a batch."""

    command: QueuedCommand[S]
    error_or_result: Exception | CommandResult
    commands_before: int

    @property
    def holds_in_any_state(self) -> bool:
        """Whether it failed for a reason that a newer state would not change."""
        if isinstance(self.error_or_result, ApprovalUnavailable | TooManyRequests):
            return True
        return isinstance(self.error_or_result, Exception) and not isinstance(self.error_or_result, CatalogError | OutdatedRead)

    def finish(self) -> None:
        if isinstance(self.error_or_result, Exception):
            fail(self.command, self.error_or_result)
        elif not self.command.future.done():
            self.command.future.set_result(self.error_or_result)
