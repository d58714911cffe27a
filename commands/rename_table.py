"""RenameTable: another name, in the same or another namespace of the warehouse; the files stay where they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_table
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.errors import AlreadyExists, NoSuchNamespace
from domain.events import TableRenamed
from domain.identifiers import TabularIdentifier
from domain.table import TableState
from projections import names
from projections.connections import Connection
from projections.streams import State
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RenameTable:
    source: TabularIdentifier
    destination: TabularIdentifier


async def rename_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RenameTable) -> Answer:
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""

    located: list[Located[State]] = []

    async def locate() -> Sequence[Located[State]]:
        located[:] = [await locate_table(write, warehouse, command.source)]
        return located

    async def decide() -> Decision:
        (source,) = located
        state, generation = await source.read_now()
        assert isinstance(state, TableState)
        async with write.connection() as connection:
            namespace_id = await free_destination(connection, warehouse, state.id, command.source, command.destination)
        submission = Submission(context)
        name = command.destination.name
        if (namespace_id, name) != (state.namespace_id, state.name):
            submission.alive.append(namespace_id)
            renamed = TableRenamed(namespace_id, name, warehouse.scope.key(name))
            submission.add(state.id, warehouse.id, state, [renamed], generation)
        else:
            submission.rest_on(state)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute_together(context, warehouse, locate, decide)


async def free_destination(
    connection: Connection, warehouse: Warehouse, object_id: UUID, source: TabularIdentifier, destination: TabularIdentifier
) -> UUID:
    """The id of the namespace the destination is in, its name free or already this object's."""
    found = await names.find(connection, warehouse.scope, destination.namespace, destination.name)
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {destination.namespace}")
    if found.object_id not in (None, object_id):
        raise AlreadyExists(f"Cannot rename {source} to {destination}. {str(found.kind).capitalize()} already exists")
    return found.namespace_id
