"""DropTable: frees the name at once. The files are deleted later, if the client requested a purge."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import DropTable
from ...domain.table import TableState, decide_drop
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver
from ..execution.submission import IdempotencyRecord, Submission


async def drop_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropTable) -> CommandResponse:
    """204. With `purge_requested` a job deletes the files, and the location is free afterwards.

    If the table's property gc.enabled forbids it, the files stay, the event records that, and the location is free at once.
    """
    return await executor.execute(_Drop(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _Drop(StreamCommandHandler[TableState]):
    command: DropTable
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[TableState]:
        return await self.resolver.table(self.warehouse, self.command.table)

    def decide(self, state: TableState, generation: int) -> Decision:
        submission = Submission(self.context)
        event = decide_drop(state, purge_requested=self.command.purge_requested)
        after = submission.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(submission, IdempotencyRecord(204), CommandResponse(204, None), after=after)
