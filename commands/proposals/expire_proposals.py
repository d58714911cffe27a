"""The job that records the expiry of proposals in the log.

It can be stopped at any moment and can be late: an expired proposal is refused at its approval in any case.
"""

from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ...access.request_context import Principal, RequestContext
from ...database.advisory_locks import AdvisoryLock
from ...database.connections import Connection
from ...domain.proposal import decide_expire
from ...projections import proposals, warehouses
from ..execution.append_request import AppendRequest
from ..execution.clock import now_ms
from ..execution.leader_job import LeaderJob

_log = structlog.get_logger("icecore.proposals")

_PROPOSALS_PER_ROUND_MAX = 100
_PRINCIPAL = Principal("icecore-expiry")


class ExpiryJob(LeaderJob):
    """Closes expired proposals."""

    NAME = "expire-proposals"
    LEADER_LOCK = AdvisoryLock.EXPIRE_PROPOSALS_JOB

    async def run_once(self) -> int:
        """Closes expired proposals, if no other process leads. Returns their number."""
        return await self.lead(self._round)

    async def _round(self, connection: Connection) -> int:
        due = await proposals.due(connection, now_ms(), _PROPOSALS_PER_ROUND_MAX)
        return sum([await self._expire(proposal_id) for proposal_id in due])

    async def _expire(self, proposal_id: UUID) -> bool:
        """Whether the proposal was closed here. It may have been approved before."""
        async with self._executor.connection() as connection:
            found = await proposals.read_state(connection, proposal_id)
            warehouse = None if found is None else await warehouses.read_of_any_project(connection, found[0].warehouse_id)
        event = None if found is None else decide_expire(found[0], now_ms())
        if found is None or event is None or warehouse is None:
            return False
        state, _ = found
        context = RequestContext(str(uuid7()), warehouse.project_id, _PRINCIPAL, "expireProposal", causation_id=state.event_id)
        append_request = AppendRequest(context)
        append_request.add(state.id, state.warehouse_id, state, [event])
        result = await self._executor.committer.submit(append_request)
        _log.info("proposal_expired", proposal_id=str(proposal_id), outcome=result.outcome)
        return result.outcome == "appended"
