"""The stream queues of one process: admits commands, holds several queues at once, and removes idle queues."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from ...domain.errors import TooManyRequests
from ...domain.streams import State
from ...storage.large_documents import LargeDocuments
from .decision_writer import DecisionWriter
from .handler import CommandResult, S, StreamCommandHandler
from .queue_entries import Barrier, QueuedCommand, fail, unavailable_error
from .resolver import ResolvedStream
from .stream_queue import QueueMetrics, StreamQueue

STREAM_QUEUE_COMMANDS_MAX = 1_024
QUEUE_WAIT_SECONDS_MAX = 10.0
# Idle queues keep their state, so that the next command on the stream need not read it.
QUEUES_KEPT_MAX = 1_000
QUEUES_KEPT_BYTES_MAX = 64 * 1024 * 1024
# For the most recently used queue.
NEWEST_QUEUE_BYTES_MAX = 2 * QUEUES_KEPT_BYTES_MAX


class StreamQueues:
    """The queues of one process, by stream."""

    def __init__(self, decision_writer: DecisionWriter, large_documents: LargeDocuments) -> None:
        self._decision_writer, self._large_documents = decision_writer, large_documents
        self.metrics = QueueMetrics()
        self._counted_bytes = 0
        self._generation = 0
        self._queues: OrderedDict[UUID, StreamQueue[Any]] = OrderedDict()

    async def run(self, stream: ResolvedStream[S], handler: StreamCommandHandler[S], deadline: float) -> CommandResult:
        """Runs a command in the stream's queue. The queue's task decides waiting commands in turn, each on the state after the one
        before, appends them as a batch, and completes each.

        Raises the handler's errors, including OutdatedRead; TooManyRequests if the queue is full or the command was not begun within
        QUEUE_WAIT_SECONDS_MAX; OutdatedRead if other processes won every append until `deadline` (monotonic seconds).
        """
        queue = self._queue(stream.id)
        if len(queue.entries) >= STREAM_QUEUE_COMMANDS_MAX:
            raise TooManyRequests(f"{STREAM_QUEUE_COMMANDS_MAX} commands on the same object are already waiting; try again later")
        loop = asyncio.get_running_loop()
        command = QueuedCommand(stream, handler, deadline, loop.create_future())
        queue.put(command)
        too_long = loop.call_later(QUEUE_WAIT_SECONDS_MAX, _refuse_unless_begun, command)
        try:
            # If the request is cancelled because the server stops, the command is skipped if it has not begun; else it completes.
            return await command.future
        finally:
            too_long.cancel()
            # The traceback refers to this frame, and the command to the error: a cycle that would keep documents in memory.
            del command

    @asynccontextmanager
    async def locked(self, stream_ids: Collection[UUID]) -> AsyncIterator[None]:
        """Holds the queues of these streams inside the block, with none of their commands in flight. An id may occur twice.

        It joins all queues in one synchronous step, so that two commands on the same streams cannot deadlock.
        """
        if not stream_ids:
            yield
            return
        queues = [self._queue(stream_id) for stream_id in dict.fromkeys(stream_ids)]
        barrier = Barrier(len(queues))
        for queue in queues:
            queue.put(barrier)
        try:
            try:
                await asyncio.wait_for(barrier.reached.wait(), QUEUE_WAIT_SECONDS_MAX)
            except TimeoutError:
                raise _waited_too_long() from None
            if barrier.refused_for is not None:
                raise unavailable_error(barrier.refused_for)
            try:
                yield
            finally:
                # The queues do not see what was appended inside the block.
                for queue in queues:
                    queue.forget()
        finally:
            barrier.done.set()

    def seed(self, state: State, document_size: int, confirmed_at: float) -> None:
        """Gives the queue of a new stream its first state, current at `confirmed_at` or later.

        document_size -- from which its memory is estimated.

        The generation of the read models is the newest that any queue has read. `append` checks it, as it checks the cached state.
        Before any queue has read a generation, this does nothing.
        """
        if self._generation:
            self._queue(state.id).seed(state, self._generation, document_size, confirmed_at)
            self._trim(state.id)

    def refuse_waiting(self, reason: str) -> None:
        """Refuses the commands that wait for a batch that cannot be appended now. reason -- why Postgres cannot be used, for clients."""
        for queue in self._queues.values():
            for entry in queue.entries:
                if isinstance(entry, Barrier):
                    entry.refuse(reason)
                else:
                    fail(entry, unavailable_error(reason))

    @property
    def queued(self) -> int:
        """Number of entries waiting in all queues. A command on several streams has one in each."""
        return sum(len(queue.entries) for queue in self._queues.values())

    def _queue(self, stream_id: UUID) -> StreamQueue[Any]:
        """Of the kind of state that the resolver returns for the stream."""
        queue = self._queues.get(stream_id)
        if queue is None:
            queue = self._queues[stream_id] = StreamQueue(stream_id, self._decision_writer, self.metrics, self._large_documents, self._trim)
        self._queues.move_to_end(stream_id)
        return queue

    def _trim(self, stream_id: UUID) -> None:
        """Counts the memory of a queue's new state, and notes its generation. Then removes the least recently used idle queues while there
        are too many, or while they hold too much memory.
        """
        queue = self._queues.get(stream_id)
        if queue is None:
            return
        self._generation = max(self._generation, queue.generation)
        self._counted_bytes += queue.state_bytes - queue.counted_bytes
        queue.counted_bytes = queue.state_bytes
        if len(self._queues) <= QUEUES_KEPT_MAX and self._counted_bytes <= QUEUES_KEPT_BYTES_MAX:
            return
        newest = next(reversed(self._queues))
        for old_id in [*self._queues]:
            old = self._queues[old_id]
            # The most recently used queue may exceed the limit on all queues: commits to a large table usually follow one another.
            if old.idle and (old_id != newest or old.counted_bytes > NEWEST_QUEUE_BYTES_MAX):
                self._counted_bytes -= old.counted_bytes
                del self._queues[old_id]
            if len(self._queues) <= QUEUES_KEPT_MAX and self._counted_bytes <= QUEUES_KEPT_BYTES_MAX:
                return


def _refuse_unless_begun(command: "QueuedCommand[S]") -> None:
    if not command.begun:
        fail(command, _waited_too_long())


def _waited_too_long() -> TooManyRequests:
    seconds = f"{QUEUE_WAIT_SECONDS_MAX:.0f} seconds"
    return TooManyRequests(f"The request waited {seconds} for other requests on the same objects; try again later")
