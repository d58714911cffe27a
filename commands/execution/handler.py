"""Command handlers and decisions. A handler decides a command; a decision writes nothing."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.byte_pieces import Content
from ...domain.claims import NameClaim
from ...domain.identifiers import TabularIdentifier
from ...domain.names import ResolvedName
from ...domain.streams import State
from ...domain.table import TableState
from ...storage.locations import StorageLocation
from .answer import Answer
from .resolver import ResolvedStream
from .submission import AppendResult, IdempotencyRecord, Submission

S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file that must stand before the event that names it."""

    location: StorageLocation
    document: Content


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """A table that a command begins, as it is remembered once it is in the log: its first commit need neither look it up nor read it."""

    identifier: TabularIdentifier
    claim: NameClaim
    state: TableState
    document_bytes: int


@dataclass(slots=True)
class Decision:
    """One command's outcome, before it is appended.

    submission -- without events where nothing changes: answered at once, or recorded if it carries a key.
    record -- what the key is remembered by.
    answer -- the answer, whose position is not known yet.
    files -- written before the append, taken away again if it surely did not come to effect.
    after -- the state its stream is left in, for the command behind it; None where it does not write one stream.
    created -- the table it begins.
    secret_ref -- the credential that was stored for it, destroyed if it surely did not come to effect.
    reviewed -- False: no hook is asked.
    """

    submission: Submission
    record: IdempotencyRecord
    answer: Answer
    files: list[MetadataFile] = field(default_factory=list)
    after: State | None = None
    created: CreatedTable | None = None
    secret_ref: UUID | None = None
    reviewed: bool = True


@dataclass(slots=True)
class CommandOutcome:
    """What became of a command: `result` is None where there was nothing to append."""

    decision: Decision
    result: AppendResult | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the names of a command stand for.

    streams -- what it changes. within -- what it creates something in, or moves something to; where there is no such thing, `decide`
    refuses the command.
    """

    streams: Sequence[ResolvedStream[State]] = ()
    within: Sequence[Resource] = ()

    @property
    def resources(self) -> list[Resource]:
        """What the principal needs to be permitted."""
        return [*(stream.resource for stream in self.streams), *self.within]


def parent_of(found: ResolvedName | None, warehouse: Warehouse) -> Resource:
    """What a name lies in, for `within`: its namespace; the warehouse where there is no such namespace."""
    return Resource("warehouse", warehouse.id) if found is None else Resource("namespace", found.namespace_id)


@dataclass(slots=True, eq=False)
class CommandHandler(ABC):
    """One request's command that is decided on what the read models say; the queues of its streams stand still meanwhile.

    command -- what is asked; a change that is held waits as this.
    """

    context: RequestContext
    warehouse: Warehouse
    command: object

    @abstractmethod
    async def resolve(self) -> Resolved:
        """What it is about, found by its names; nothing else is read yet. Raises what the names are refused by."""

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """What takes long, once the principal may do this and before the queues of its streams are joined."""

    @abstractmethod
    async def decide(self) -> Decision:
        """Raises the refusal, or StaleName where a name no longer stands for what it was resolved to."""


@dataclass(slots=True, eq=False)
class StreamCommandHandler(ABC, Generic[S]):
    """One request's command on one stream, decided on its state alone: appended in a batch with others on the same stream.

    command -- as CommandHandler's.
    """

    context: RequestContext
    warehouse: Warehouse
    command: object

    @abstractmethod
    async def resolve(self) -> ResolvedStream[S]:
        """The stream, found by its name."""

    @abstractmethod
    def decide(self, state: S, generation: int) -> Decision:
        """On a state of the stream, and the generation of the read models it was read from. Raises the refusal."""
