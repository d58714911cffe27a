"""DropView: frees the name and the location at once. The files stay."""

from dataclasses import dataclass

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.commands import DropView
from ...domain.view import ViewState, decide_drop
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.command_response import CommandResponse
from ..execution.drop_expiry import DropExpiry
from ..execution.executor import CommandExecutor
from ..execution.handler import Decision, StreamCommandHandler
from ..execution.resolver import ResolvedStream


async def drop_view(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: DropView) -> CommandResponse:
    """204. Raises ViewProtected without `force`.

    In a soft-deleting warehouse the view can be undropped until it expires, and its location is not free.
    """
    return await executor.execute(_DropHandler(context, warehouse, command, executor))


@dataclass(slots=True, eq=False)
class _DropHandler(StreamCommandHandler[ViewState]):
    command: DropView
    executor: CommandExecutor
    expiry: DropExpiry | None = None

    async def resolve(self) -> ResolvedStream[ViewState]:
        self.expiry = await DropExpiry.read(self.executor, self.warehouse, force=self.command.force)
        return await self.executor.resolver.view(self.warehouse, self.command.view)

    def decide(self, state: ViewState, generation: int) -> Decision:
        assert self.expiry is not None
        append_request = AppendRequest(self.context)
        after = append_request.add(
            state.id, self.warehouse.id, state, [decide_drop(state, self.expiry.at_ms(), force=self.command.force)], generation
        )
        return Decision(append_request, IdempotencyRecord(204), CommandResponse(204, None), after=after)
