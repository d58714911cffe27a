"""Entries of a stream queue: commands, and barriers of commands on several streams."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Generic

from ...domain.errors import ApprovalUnavailable, CatalogError, ServiceUnavailable, TooManyRequests
from .handler import CommandResult, Decision, S, StreamCommandHandler
from .offload import in_thread_if, is_large_request, is_large_state
from .resolver import OutdatedRead, ResolvedStream


class SharedDocumentSize:
    """The size of the bytes that the responses to several commits share."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@dataclass(slots=True, eq=False)
class QueuedCommand(Generic[S]):
    """One command in a queue, until its result is set."""

    stream: ResolvedStream[S]
    handler: StreamCommandHandler[S]
    deadline: float
    future: "asyncio.Future[CommandResult]"
    arrived: float = field(default_factory=time.monotonic)
    begun: bool = False

    async def decide(self, state: S, generation: int, shared_size: SharedDocumentSize, *, large: bool) -> Decision:
        """Reserves memory for a response with the document, and decides. Raises the command's refusal, or OutdatedRead.

        large -- whether the state's document is large. shared_size -- what the response shares with those to other commands.
        """
        context = self.handler.context
        if context.reserve_memory is not None:
            context.reserve_memory(len(shared_size), shared_size)
        return await in_thread_if(large or is_large_request(context) or is_large_state(state), self._decide, state, generation)

    def _decide(self, state: S, generation: int) -> Decision:
        self.stream.check(state)
        return self.handler.decide(state, generation)


@dataclass(slots=True)
class UnappendedCommand(Generic[S]):
    """A command that is refused or changes nothing, decided after the first `commands_before` commands of a batch."""

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


@dataclass(slots=True, eq=False)
class Barrier:
    """A command on several streams: each of their queues stops at it until the command is done."""

    missing: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    refused_for: str | None = None

    def arrive(self) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.reached.set()

    def refuse(self, reason: str) -> None:
        """Refuses the command, unless its work has begun."""
        if self.missing > 0:
            self.refused_for = reason
            self.reached.set()


def unavailable_error(reason: str) -> ServiceUnavailable:
    """The error for a command that was not begun, with the reason why Postgres cannot be used."""
    return ServiceUnavailable(reason, retry_after_seconds=1)


def fail(command: "QueuedCommand[S]", error: BaseException) -> None:
    """Completes a command with an error, unless it is complete.

    Removes a refusal's traceback: its frames refer to the command, and the command to the error, a cycle that would keep a document.
    """
    if isinstance(error, CatalogError | OutdatedRead):
        error.__traceback__ = None
    if not command.future.done():
        command.future.set_exception(error)
        # Marks the exception as retrieved: if the request was cancelled, no task awaits the result.
        command.future.exception()
