"""DropView: the name and the location are free at once; its files stay."""

from dataclasses import dataclass

from commands.context import Answer, CommandContext
from commands.decision import Decision
from commands.located import Located, locate_view
from commands.submission import IdempotencyRecord, Submission
from commands.write_side import WriteSide
from domain.events import ViewDropped
from domain.identifiers import TabularIdentifier
from domain.view import ViewState
from queries.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class DropView:
    view: TabularIdentifier


async def drop_view(write: WriteSide, context: CommandContext, warehouse: Warehouse, command: DropView) -> Answer:
    """204."""

    async def locate() -> Located[ViewState]:
        return await locate_view(write, warehouse, command.view)

    def decide(state: ViewState, generation: int) -> Decision:
        submission = Submission(context)
        after = submission.add(state.id, warehouse.id, state, [ViewDropped()], generation)
        return Decision(submission, IdempotencyRecord(204), lambda position: Answer(204, None, position), after=after)

    return await write.execute_in_lane(context, warehouse, locate, decide)
