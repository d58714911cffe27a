"""What renaming tables and renaming views share."""

from abc import abstractmethod
from dataclasses import dataclass

from ...domain import table, view
from ...domain.commands import RenameTable, RenameView
from ...domain.events import TableRenamed, ViewRenamed
from ...domain.identifiers import TabularIdentifier
from ...domain.names import ResolvedName
from ...domain.table import TableState
from ...domain.view import ViewState
from ...projections import names
from ...storage.large_documents import DocumentShare
from ..execution.answer import Answer
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, Decision, Resolved, parent_of
from ..execution.resolver import ResolvedStream, StaleName
from ..execution.submission import IdempotencyRecord, Submission


@dataclass(slots=True, eq=False)
class TabularRename(CommandHandler):
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""

    command: RenameTable | RenameView
    executor: CommandExecutor
    share: DocumentShare
    stream: ResolvedStream[TableState | ViewState] | None = None
    namespace: ResolvedName | None = None

    @abstractmethod
    async def find(self) -> ResolvedStream[TableState | ViewState]:
        """What the source's name stands for."""

    async def resolve(self) -> Resolved:
        self.stream = await self.find()
        async with self.executor.connection() as connection:
            self.namespace = await names.find(connection, self.warehouse.scope, self.command.destination.namespace, None)
        return Resolved([self.stream], [parent_of(self.namespace, self.warehouse)])

    async def prepare(self) -> None:
        assert self.stream is not None
        await self.executor.resolver.take_room(self.share, [self.stream])

    async def decide(self) -> Decision:
        assert self.stream is not None
        state, generation = await self.stream.read_named(self.share)
        scope, destination = self.warehouse.scope, self.command.destination
        async with self.executor.connection() as connection:
            found = await names.find(connection, scope, destination.namespace, destination.name)
        if found is not None and (self.namespace is None or found.namespace_id != self.namespace.namespace_id):
            # Another namespace than the one that was authorized.
            raise StaleName
        submission = Submission(self.context)
        event = _decide(state, found, self.command.source, destination, scope.key(destination.name))
        if event is None:
            submission.rest_on(state)
        else:
            submission.alive.append(event.namespace_id)
            submission.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(submission, IdempotencyRecord(204), Answer(204, None))


def _decide(
    state: TableState | ViewState, found: ResolvedName | None, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> TableRenamed | ViewRenamed | None:
    match state:
        case TableState():
            return table.decide_rename(state, found, source, destination, name_key)
        case ViewState():
            return view.decide_rename(state, found, source, destination, name_key)
