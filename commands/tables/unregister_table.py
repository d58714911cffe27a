"""UnregisterTable: removes a table from the catalog without touching files, and returns its metadata location."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import UnregisterTable
from ...domain.table import TableState, decide_unregister
from ...projections import response_bodies
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream, Resolver
from ..tabulars.metadata_files import build_loaded_table, serialize_table


async def unregister_table(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: UnregisterTable
) -> CommandResponse:
    """200 with the last metadata and its location. Raises TableProtected without `force`."""
    return await executor.execute(_UnregistrationHandler(context, warehouse, command, executor.resolver))


@dataclass(slots=True, eq=False)
class _UnregistrationHandler(StreamCommandHandler[TableState]):
    command: UnregisterTable
    resolver: Resolver

    async def resolve(self) -> ResolvedStream[TableState]:
        return await self.resolver.table(self.warehouse, self.command.table)

    def decide(self, state: TableState, generation: int) -> Decision:
        append_request = AppendRequest(self.context)
        after = append_request.add(state.id, self.warehouse.id, state, [decide_unregister(state, force=self.command.force)], generation)
        body = response_bodies.commit_table_response(build_loaded_table(state, serialize_table(state.document)))
        return Decision(append_request, IdempotencyRecord(200, state.id, state.version), CommandResponse(200, body), after=after)
