"""DropTable: frees the name at once. The files are deleted later, if a purge was requested."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import DropTable
from ...domain.table import TableState, decide_drop
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.drop_expiry import DropExpiry
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream


async def drop_table(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropTable) -> CommandResponse:
    """204. With `purge_requested` a job deletes the files, and the location is free afterwards.

    In a soft-deleting warehouse the table can be undropped until it expires. Until then a requested purge waits, and the location is not
    free. If the table's property gc.enabled forbids the purge, the files stay, and the event records that.
    Raises TableProtected without `force`.
    """
    return await executor.execute(_DropHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _DropHandler(StreamCommandHandler[TableState]):
    command: DropTable
    executor: CommandExecutor
    expiry: DropExpiry | None = None

    async def resolve(self) -> ResolvedStream[TableState]:
        self.expiry = await DropExpiry.read(self.executor, self.warehouse, force=self.command.force)
        return await self.executor.resolver.table(self.warehouse, self.command.table)

    def decide(self, state: TableState, generation: int) -> Decision:
        assert self.expiry is not None
        append_request = AppendRequest(self.context)
        requested = self.command.purge_requested
        event = decide_drop(
            state,
            purge_requested=self.warehouse.purge_default if requested is None else requested,
            force=self.command.force,
            expires_at_ms=self.expiry.at_ms(),
        )
        after = append_request.add(state.id, self.warehouse.id, state, [event], generation)
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None), after=after)
