"""RejectProposal: closes a held change without executing it."""

from dataclasses import dataclass
from uuid import UUID

import orjson

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.proposal import ProposalState, decide_reject
from ..execution.append_request import AppendRequest, IdempotencyRecord
from ..execution.clock import now_ms
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from ..execution.handler import CommandHandler, CommandTargets, Decision
from .proposals import Proposals, proposal_json


@dataclass(frozen=True, slots=True)
class RejectProposal:
    proposal_id: UUID
    reason: str


async def reject_proposal(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: RejectProposal
) -> CommandResponse:
    """200 with the proposal. Raises ProposalClosed if it is closed or has expired."""
    return await executor.execute(_RejectionHandler(context, warehouse, command, executor.proposals))


@dataclass(slots=True, eq=False)
class _RejectionHandler(CommandHandler):
    command: RejectProposal
    proposals: Proposals

    async def resolve(self) -> CommandTargets:
        return CommandTargets(other_resources=[Resource("proposal", self.command.proposal_id)])

    async def decide(self) -> Decision:
        state = await self.proposals.load(self.command.proposal_id)
        event = decide_reject(state, self.context.principal.id, self.command.reason, now_ms())
        append_request = AppendRequest(self.context)
        after = append_request.add(state.id, self.warehouse.id, state, [event])
        assert isinstance(after, ProposalState)
        body = orjson.dumps(proposal_json(after))
        return Decision(append_request, IdempotencyRecord(200, body=body), CommandResponse(200, body))
