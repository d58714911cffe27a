"""Entries of a stream's queue: commands, and barriers of commands over several streams."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Generic

from ...domain.errors import CatalogError, ServiceUnavailable
from .deciding import decided, is_large_request, is_large_state
from .handler import CommandOutcome, Decision, S, StreamCommandHandler
from .resolver import ResolvedStream, StaleName


class SharedBytes:
    """So many bytes of a document, which the answers to all commits that were decided on it share."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


@dataclass(slots=True, eq=False)
class Job(Generic[S]):
    """One command in a queue, until it is settled."""

    stream: ResolvedStream[S]
    handler: StreamCommandHandler[S]
    deadline: float
    answer: "asyncio.Future[CommandOutcome]"
    arrived: float = field(default_factory=time.monotonic)
    taken: bool = False

    async def decide(self, state: S, generation: int, document: SharedBytes, *, large: bool) -> Decision:
        """What the command decides, once there is room for an answer with the document. Raises its refusal, or StaleName.

        large -- the state's document is.
        """
        context = self.handler.context
        if context.make_room is not None:
            context.make_room(len(document), document)
        return await decided(large or is_large_request(context) or is_large_state(state), self._decide, state, generation)

    def _decide(self, state: S, generation: int) -> Decision:
        self.stream.check(state)
        return self.handler.decide(state, generation)


@dataclass(slots=True, eq=False)
class Barrier:
    """A command over several streams: every queue stops at it until it is done."""

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


def away() -> ServiceUnavailable:
    """What a command is answered that nothing was begun for, while the log is away."""
    return ServiceUnavailable("The log cannot be reached", retry_after_seconds=1)


def fail(job: "Job[S]", error: BaseException) -> None:
    """Settles a command by an error, unless it is settled.

    A refusal leaves its trace here: its frames hold the job, and the job the error, so that a document would stay until a collection.
    """
    if isinstance(error, CatalogError | StaleName):
        error.__traceback__ = None
    if not job.answer.done():
        job.answer.set_exception(error)
        # A client that went away leaves nobody to hear it.
        job.answer.exception()
