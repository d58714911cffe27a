"""RenameView: another name, in the same or another namespace of the warehouse."""

from dataclasses import dataclass

from commands.commit_view import read_view
from commands.context import Answer, CommandContext
from commands.rename_table import free_destination
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import Decision, WriteSide
from domain.events import ViewRenamed
from domain.identifiers import TabularIdentifier
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RenameView:
    source: TabularIdentifier
    destination: TabularIdentifier


async def rename_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RenameView) -> Answer:
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_view(connection, warehouse, command.source)
            namespace_id = await free_destination(connection, warehouse, state.id, command.source, command.destination)
        submission = Submission(context)
        name = command.destination.name
        if (namespace_id, name) != (state.namespace_id, state.name):
            submission.alive.append(namespace_id)
            renamed = ViewRenamed(namespace_id, name, warehouse.scope.key(name))
            submission.add(state.id, warehouse.id, state, [renamed], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute(context, warehouse, decide)
