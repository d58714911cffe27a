"""UnregisterTable: the catalog forgets a table and says where its metadata is; no file is touched, and later commits fail."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_table
from commands.submission import IdempotencyRecord, Submission
from commands.table_files import loaded_table, written_table
from commands.write_side import WriteSide
from domain.events import TableUnregistered
from domain.identifiers import TabularIdentifier
from domain.table import TableState
from projections import results
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class UnregisterTable:
    table: TabularIdentifier


async def unregister_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: UnregisterTable) -> Answer:
    """200 with the last metadata and where it is."""

    async def locate() -> Located[TableState]:
        return await locate_table(write, warehouse, command.table)

    def decide(state: TableState, generation: int) -> Decision:
        submission = Submission(context)
        after = submission.add(state.id, warehouse.id, state, [TableUnregistered()], generation)
        body = results.commit_table_response(loaded_table(state, written_table(state.document)))
        record = IdempotencyRecord(200, state.id, state.version)
        return Decision(submission, record, lambda position: Answer(200, body, position), after=after)

    return await write.execute_in_lane(context, warehouse, locate, decide)
