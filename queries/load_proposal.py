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
    """Its newest state. Raises NoSuchProposal if the project has none. `reserve_memory` is called with its JSON before that is parsed."""
    await queries.authorize(context, Resource("proposal", proposal_id))
    async with queries.backends.connection() as connection:
        if not await proposals.is_in_project(connection, context.project_id, proposal_id):
            raise proposals.no_such_proposal(proposal_id)
        return await proposals.find(connection, proposal_id, reserve_memory)
