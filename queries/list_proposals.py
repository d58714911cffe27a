"""Lists proposals."""

from uuid import UUID

from ..access.authorization import Resource
from ..access.request_context import RequestContext
from ..access.warehouse import Warehouse
from ..domain.proposal import ProposalState, ProposalStatus
from ..projections import proposals
from .executor import QueryExecutor


async def list_proposals(
    queries: QueryExecutor,
    context: RequestContext,
    warehouse: Warehouse | None,
    status: ProposalStatus | None,
    *,
    after: UUID | None,
    size: int,
) -> tuple[list[ProposalState], UUID | None]:
    """At most `size` proposals after `after`, fewer if they are large, oldest first; and the last one's id if there are more.

    warehouse -- None: all of the project. As of a past position, it lists the proposals of that time.
    """
    resource = Resource("project", context.project_id) if warehouse is None else Resource("warehouse", warehouse.id)
    await queries.authorize(context, resource)
    async with queries.backends.connection() as connection:
        found, more = await proposals.read_page(
            connection,
            project_id=context.project_id,
            warehouse_id=None if warehouse is None else warehouse.id,
            status=status,
            as_of=None if warehouse is None else warehouse.as_of,
            after=after,
            size=size,
        )
    return found, found[-1].id if more else None
