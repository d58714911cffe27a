"""RenameView: another name, in the same or another namespace of the warehouse."""

from collections.abc import Sequence
from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_view
from commands.rename_table import free_destination
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.events import ViewRenamed
from domain.identifiers import TabularIdentifier
from domain.view import ViewState
from projections.streams import State
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class RenameView:
    source: TabularIdentifier
    destination: TabularIdentifier


async def rename_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: RenameView) -> Answer:
    """204; the destination's namespace must exist and the name be free there (another spelling of its own is)."""

    located: list[Located[State]] = []

    async def locate() -> Sequence[Located[State]]:
        located[:] = [await locate_view(write, warehouse, command.source)]
        return located

    async def decide() -> Decision:
        (source,) = located
        state, generation = await source.read_now()
        assert isinstance(state, ViewState)
        async with write.connection() as connection:
            namespace_id = await free_destination(connection, warehouse, state.id, command.source, command.destination)
        submission = Submission(context)
        name = command.destination.name
        if (namespace_id, name) != (state.namespace_id, state.name):
            submission.alive.append(namespace_id)
            renamed = ViewRenamed(namespace_id, name, warehouse.scope.key(name))
            submission.add(state.id, warehouse.id, state, [renamed], generation)
        else:
            submission.rest_on(state)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute_together(context, warehouse, locate, decide)
