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
from ...storage.large_documents import DocumentReservation
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision, parent_of
from ..execution.resolver import OutdatedRead, ResolvedStream


@dataclass(slots=True, eq=False)
class TabularRename(CommandHandler):
    """204. The destination's namespace must exist, and the name must be free in it (the object's own name may change its spelling)."""

    command: RenameTable | RenameView
    executor: CommandExecutor
    reservation: DocumentReservation
    stream: ResolvedStream[TableState | ViewState] | None = None
    namespace: ResolvedName | None = None

    @abstractmethod
    async def find(self) -> ResolvedStream[TableState | ViewState]:
        """The objects that the source's name refers to."""

    async def resolve(self) -> CommandTargets:
        self.stream = await self.find()
        async with self.executor.connection() as connection:
            self.namespace = await names.find(connection, self.warehouse.name_lookup, self.command.destination.namespace, None)
        return CommandTargets([self.stream], [parent_of(self.namespace, self.warehouse)])

    async def prepare(self) -> None:
        assert self.stream is not None
        await self.executor.resolver.reserve_document_memory(self.reservation, [self.stream])

    async def decide(self) -> Decision:
        assert self.stream is not None
        state, generation = await self.stream.read_named(self.reservation)
        lookup, destination = self.warehouse.name_lookup, self.command.destination
        async with self.executor.connection() as connection:
            found = await names.find(connection, lookup, destination.namespace, destination.name)
        if found is not None and (self.namespace is None or found.namespace_id != self.namespace.namespace_id):
            # The namespace is not the one that was authorized.
            raise OutdatedRead
        append_request = AppendRequest(self.context)
        event = _decide(state, found, self.command.source, destination, lookup.key(destination.name))
        if event is None:
            append_request.depend_on(state)
        else:
            append_request.must_exist.append(event.namespace_id)
            append_request.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None))


def _decide(
    state: TableState | ViewState, found: ResolvedName | None, source: TabularIdentifier, destination: TabularIdentifier, name_key: str
) -> TableRenamed | ViewRenamed | None:
    match state:
        case TableState():
            return table.decide_rename(state, found, source, destination, name_key)
        case ViewState():
            return view.decide_rename(state, found, source, destination, name_key)
