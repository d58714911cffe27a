"""DropTable: the name is free at once; the files go only where the client asks, and after the event."""

from dataclasses import dataclass

from commands.commit_table import read_table
from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import Decision, WriteSide
from domain.events import TableDropped
from domain.identifiers import TabularIdentifier
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class DropTable:
    table: TabularIdentifier
    purge_requested: bool


async def drop_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropTable) -> Answer:
    """204; with `purge_requested` a job deletes the files, and the location is free when they are gone."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_table(connection, warehouse, command.table)
        submission = Submission(context)
        submission.add(state.id, warehouse.id, state, [TableDropped(command.purge_requested)], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position))

    return await write.execute(context, warehouse, decide)
