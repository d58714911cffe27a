"""What stands in a lane's queue: a command with what it is decided and appended by, or a barrier of a command over several streams."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from commands.decision import Decision, Relocate
from commands.submission import AppendResult, Submission
from domain.errors import CatalogError, ServiceUnavailable
from projections.streams import State

S = TypeVar("S", bound=State)
Decide = Callable[[S, int], Decision]


class SharedBytes:
    """So many bytes of a document, which the answers to all commits that were decided on it share."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


class Appending(Protocol):
    """How a chain gets into the log: reviewed where there is a reviewer, then files, then one batch."""

    @property
    def reviews(self) -> bool: ...

    @property
    def is_large(self) -> bool: ...

    def make_room(self, document: SharedBytes) -> None: ...

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
class Job(Generic[S]):
    """One command in a lane, until it is settled."""

    decide: Decide[S]
    appending: Appending
    deadline: float
    answer: "asyncio.Future[Settled]"
    arrived: float = field(default_factory=time.monotonic)
    taken: bool = False


@dataclass(slots=True, eq=False)
class Barrier:
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


def away() -> ServiceUnavailable:
    """What a command is answered that nothing was begun for, while the log is away."""
    return ServiceUnavailable("The log cannot be reached", retry_after_seconds=1)


def fail(job: "Job[S]", error: BaseException) -> None:
    """Settles a command by an error, unless it is settled.

    A refusal leaves its trace here: its frames hold the job, and the job the error, so that a document would stay until a collection.
    """
    if isinstance(error, CatalogError | Relocate):
        error.__traceback__ = None
    if not job.answer.done():
        job.answer.set_exception(error)
        # A client that went away leaves nobody to hear it.
        job.answer.exception()
