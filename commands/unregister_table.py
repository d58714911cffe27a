"""UnregisterTable: the catalog forgets a table and says where its metadata is; no file is touched, and later commits fail."""

from dataclasses import dataclass

from commands.commit_table import read_table
from commands.context import Answer, CommandContext
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import loaded_table, written_table
from commands.write_side import Decision, WriteSide
from domain.events import TableUnregistered
from domain.identifiers import TabularIdentifier
from projections import results
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class UnregisterTable:
    table: TabularIdentifier


async def unregister_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: UnregisterTable) -> Answer:
    """200 with the last metadata and where it is."""

    async def decide() -> Decision:
        async with write.connection() as connection:
            state, generation = await read_table(connection, warehouse, command.table)
        submission = Submission(context)
        submission.add(state.id, warehouse.id, state, [TableUnregistered()], generation)
        body = results.commit_table_response(loaded_table(state, written_table(state.document)))
        return Decision(submission, IdempotencyRecord(200, state.id, state.version), lambda position: Answer(200, body, position))

    return await write.execute(context, warehouse, decide)
