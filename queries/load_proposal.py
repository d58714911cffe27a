"""Loads a proposal."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..domain.proposal import ProposalState
from ..projections import proposals
from .executor import QueryExecutor


async def load_proposal(
    queries: QueryExecutor, context: RequestContext, proposal_id: UUID, reserve_memory: proposals.ReserveMemory | None = None
) -> ProposalState:
    """The proposal's newest state. Raises NoSuchProposal. `reserve_memory` is called with its JSON before that is parsed."""
    await queries.authorize(context, Resource("proposal", proposal_id))
    async with queries.backends.connection() as connection:
        return await proposals.find(connection, proposal_id, reserve_memory)
