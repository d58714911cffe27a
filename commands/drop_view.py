"""DropView: the name and the location are free at once; its files stay."""

from dataclasses import dataclass

from commands.commit_view import read_view
from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import Decision, WriteSide
from domain.events import ViewDropped
from domain.identifiers import TabularIdentifier
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class DropView:
    view: TabularIdentifier


async def drop_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropView) -> Answer:
    """204."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_view(connection, warehouse, command.view)
        submission = Submission(context)
        submission.add(state.id, warehouse.id, state, [ViewDropped()], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute(context, warehouse, decide)
