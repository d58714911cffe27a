"""DropTable: the name is free at once; the files go only where the client asks, and after the event."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_table
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.events import TableDropped
from domain.identifiers import TabularIdentifier
from domain.table import TableState, keeps_its_files
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class DropTable:
    table: TabularIdentifier
    purge_requested: bool


async def drop_table(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropTable) -> Answer:
    """204; with `purge_requested` a job deletes the files, and the location is free when they are gone.

    Where the table's property gc.enabled forbids it, the files stay, the event says so, and the location is free at once.
    """

    async def locate() -> Located[TableState]:
        return await locate_table(write, warehouse, command.table)

    def decide(state: TableState, generation: int) -> Decision:
        submission = Submission(context)
        kept = command.purge_requested and keeps_its_files(state)
        event = TableDropped(command.purge_requested, gc_enabled=False if kept else None)
        after = submission.add(state.id, warehouse.id, state, [event], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position), after=after)

    return await write.execute_in_lane(context, warehouse, locate, decide)
