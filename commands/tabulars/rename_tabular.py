"""What renaming a table and renaming a view have in common: one thing takes a name that must be free where it goes."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from commands.execution.context import Answer
from commands.execution.executor import CommandExecutor
from commands.execution.handler import CommandHandler, Decision
from commands.execution.resolver import ResolvedStream
from commands.execution.submission import IdempotencyRecord, Submission
from database.connections import Connection
from domain import table, view
from domain.errors import AlreadyExists, NoSuchNamespace
from domain.events import TableRenamed, ViewRenamed
from domain.identifiers import TabularIdentifier
from domain.table import TableState
from domain.view import ViewState
from projections import names
from queries.warehouse import Warehouse
from storage.large_documents import DocumentShare


@dataclass(slots=True, eq=False)
class TabularRename(CommandHandler):
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""

    executor: CommandExecutor
    source: TabularIdentifier
    destination: TabularIdentifier
    share: DocumentShare
    stream: ResolvedStream[TableState | ViewState] | None = None

    @abstractmethod
    async def find(self) -> ResolvedStream[TableState | ViewState]:
        """What the source's name stands for."""

    async def resolve(self) -> Sequence[ResolvedStream[TableState | ViewState]]:
        self.stream = await self.find()
        await self.stream.take_room(self.share)
        return [self.stream]

    async def decide(self) -> Decision:
        assert self.stream is not None
        state, generation = await self.stream.read_named(self.share)
        async with self.executor.connection() as connection:
            namespace_id = await _free_destination(connection, self.warehouse, state.id, self.source, self.destination)
        submission, name = Submission(self.context), self.destination.name
        event = _decide(state, namespace_id, name, self.warehouse.scope.key(name))
        if event is None:
            submission.rest_on(state)
        else:
            submission.alive.append(namespace_id)
            submission.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(submission, IdempotencyRecord(204), Answer(204, None))


async def _free_destination(
    connection: Connection, warehouse: Warehouse, object_id: UUID, source: TabularIdentifier, destination: TabularIdentifier
) -> UUID:
    """The id of the namespace the destination is in, its name free or already this object's."""
    found = await names.find(connection, warehouse.scope, destination.namespace, destination.name)
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {destination.namespace}")
    if found.object_id not in (None, object_id):
        raise AlreadyExists(f"Cannot rename {source} to {destination}. {str(found.kind).capitalize()} already exists")
    return found.namespace_id


def _decide(state: TableState | ViewState, namespace_id: UUID, name: str, name_key: str) -> TableRenamed | ViewRenamed | None:
    match state:
        case TableState():
            return table.decide_rename(state, namespace_id, name, name_key)
        case ViewState():
            return view.decide_rename(state, namespace_id, name, name_key)
