"""DropView: frees the name and the location at once. The files stay."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import DropView
from ...domain.view import ViewState, decide_drop
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver
from ..execution.submission import IdempotencyRecord, Submission


async def drop_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropView) -> CommandResponse:
    """204."""
    return await executor.execute(_Drop(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _Drop(StreamCommandHandler[ViewState]):
    command: DropView
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[ViewState]:
        return await self.resolver.view(self.warehouse, self.command.view)

    def decide(self, state: ViewState, generation: int) -> Decision:
        submission = Submission(self.context)
        after = submission.add(state.id, self.warehouse.id, state, [decide_drop(state)], generation)
        return Decision(submission, IdempotencyRecord(204), CommandResponse(204, None), after=after)
