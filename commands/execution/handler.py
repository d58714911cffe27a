"""Command handlers and decisions. A handler decides a command; a decision writes nothing.

What a command becomes, in order: its CommandTargets (what its names refer to; of a StreamCommandHandler the ResolvedStream), a Decision
with an AppendRequest, the AppendResult if anything was appended, a CommandResult, and the CommandResponse.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar
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
from .append_request import AppendRequest, AppendResult, IdempotencyRecord
from .command_response import CommandResponse
from .resolver import ResolvedStream

S = TypeVar("S", bound=State)


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file that must be written before the event that names it."""

    location: StorageLocation
    content: Content


@dataclass(frozen=True, slots=True)
class TableToCache:
    """A new table, cached once it is in the log, so that its first commit neither resolves nor reads it."""

    identifier: TabularIdentifier
    claim: NameClaim
    state: TableState
    document_size: int


@dataclass(slots=True)
class Decision:
    """The decision on one command, before it is appended.

    append_request -- what to append. Without events nothing changes: it is only recorded, if there is an Idempotency-Key.
    idempotency_record -- what is stored for the Idempotency-Key.
    response -- without its position.
    files -- metadata files, written before the append and deleted if it certainly did not happen.
    after -- the state of the stream after it, for the next command; None if it does not write exactly one stream.
    table_to_cache -- the table it creates.
    secret_ref -- the credential stored for it, deleted if the append certainly did not happen.
    needs_review -- whether approval hooks review it. They always review the decision of a StreamCommandHandler.
    """

    append_request: AppendRequest
    idempotency_record: IdempotencyRecord
    response: CommandResponse
    files: list[MetadataFile] = field(default_factory=list)
    after: State | None = None
    table_to_cache: TableToCache | None = None
    secret_ref: UUID | None = None
    needs_review: bool = True


@dataclass(slots=True)
class CommandResult:
    """The result of a command; `append_result` is None if there was nothing to append."""

    decision: Decision
    append_result: AppendResult | None


@dataclass(frozen=True, slots=True)
class CommandTargets:
    """The objects that the names of a command refer to.

    streams -- what it changes.
    other_resources -- for which it needs permission too: the parents of what it creates or moves, a project, or a proposal. If a parent
        does not exist, `decide` refuses.
    implied_streams -- which it changes too, without a permission of their own.
    """

    streams: Sequence[ResolvedStream[State]] = ()
    other_resources: Sequence[Resource] = ()
    implied_streams: Sequence[ResolvedStream[State]] = ()

    @property
    def resources(self) -> list[Resource]:
        """The objects for which the principal needs permission."""
        return [*(stream.resource for stream in self.streams), *self.other_resources]


def parent_of(found: ResolvedName | None, warehouse: Warehouse) -> Resource:
    """The parent of a name, for `other_resources`: its namespace, or the warehouse if the namespace does not exist."""
    return Resource("warehouse", warehouse.id) if found is None else Resource("namespace", found.namespace_id)


@dataclass(slots=True, eq=False)
class CommandHandler(ABC):
    """One command that is decided on the read models. The queues of its streams wait meanwhile.

    warehouse -- replaced by its newest state before a repeated attempt. command -- the command; a held change is stored as this.
    allows_inactive_warehouse, allows_read_only_warehouse -- whether the command is allowed in such a warehouse.
    """

    allows_inactive_warehouse: ClassVar[bool] = False
    allows_read_only_warehouse: ClassVar[bool] = False

    context: RequestContext
    warehouse: Warehouse
    command: object

    @abstractmethod
    async def resolve(self) -> CommandTargets:
        """Finds the objects by their names and reads nothing else. Raises a CatalogError if a name is refused."""

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Does slow work after authorization, before the queues of the streams are joined."""

    def descendant_streams(self) -> Sequence[ResolvedStream[State]]:
        """Those whose queues wait besides the resolved ones, found by `prepare`. The permission for the resolved ones includes them."""
        return ()

    @abstractmethod
    async def decide(self) -> Decision:
        """Decides. Raises a CatalogError to refuse, or OutdatedRead if a name refers to another object by now."""


@dataclass(slots=True, eq=False)
class ProjectCommandHandler(ABC):
    """One command that creates or changes a project, decided on the read models. It has no warehouse, and no approval hook reviews it."""

    warehouse: ClassVar[None] = None
    allows_inactive_warehouse: ClassVar[bool] = True
    allows_read_only_warehouse: ClassVar[bool] = True

    context: RequestContext
    command: object

    @abstractmethod
    async def resolve(self) -> CommandTargets:
        """The objects for which the principal needs permission."""

    @abstractmethod
    async def decide(self) -> Decision:
        """Decides. Raises a CatalogError to refuse."""


@dataclass(slots=True, eq=False)
class StreamCommandHandler(ABC, Generic[S]):
    """One command on one stream, decided on the stream's state alone, and appended in a batch with others on the stream.

    warehouse, command, allows_inactive_warehouse, allows_read_only_warehouse -- as for CommandHandler.
    """

    allows_inactive_warehouse: ClassVar[bool] = False
    allows_read_only_warehouse: ClassVar[bool] = False

    context: RequestContext
    warehouse: Warehouse
    command: object

    @abstractmethod
    async def resolve(self) -> ResolvedStream[S]:
        """Finds the stream by its name."""

    @abstractmethod
    def decide(self, state: S, generation: int) -> Decision:
        """Decides on a state of the stream, read from this generation of the read models. Raises a CatalogError to refuse."""
