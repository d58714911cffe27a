"""The job for proposals: says in the log that nobody decided in time.

It may be stopped at any moment, and be late: a proposal whose time is up is refused at its approval whether or not the log says so yet.
"""

import asyncio
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from commands.context import CommandContext
from commands.submission import Submission
from commands.write_side import WriteSide
from domain.errors import CatalogError
from domain.events import ProposalExpired
from migrations.named_sql import named_sql
from projections import proposals

_SQL = named_sql("commands", "expire_proposals.sql")
_log = structlog.get_logger("icecore.proposals")

_PROPOSALS_PER_ROUND_MAX = 100
_POLL_SECONDS = 1.0
_ACTOR = "icecore-expiry"
# One process at a time does this; the number is ours alone.
_LEADER_LOCK = 4936203178


class ExpiryJob:
    """Runs beside the server; of several processes one leads."""

    def __init__(self, write: WriteSide, project_id: UUID) -> None:
        self._write = write
        self._project_id = project_id
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="expire-proposals")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except CatalogError as error:
                _log.warning("expiry_waits", error=error.message)
            await asyncio.sleep(_POLL_SECONDS)

    async def run_once(self) -> int:
        """Closes what is due, if no other process does; how many proposals."""
        async with self._write.connection() as leading:
            if await (await leading.execute(_SQL["lead"], {"lock": _LEADER_LOCK})).fetchone() != (True,):
                return 0
            try:
                due = await proposals.due(leading, self._write.now_ms(), _PROPOSALS_PER_ROUND_MAX)
                closed = sum([await self._expire(proposal_id) for proposal_id in due])
            finally:
                await leading.execute(_SQL["stop_leading"], {"lock": _LEADER_LOCK})
        return closed

    async def _expire(self, proposal_id: UUID) -> bool:
        """Whether it was this that closed it: an approval that came first may have."""
        async with self._write.connection() as connection:
            found = await proposals.read_state(connection, proposal_id)
        if found is None or found[0].status != "open":
            return False
        state, _ = found
        submission = Submission(CommandContext(str(uuid7()), self._project_id, _ACTOR, "expireProposal"))
        submission.add(state.id, state.warehouse_id, state, [ProposalExpired()])
        result = await self._write.submit(submission)
        _log.info("proposal_expired", proposal_id=str(proposal_id), outcome=result.outcome)
        return result.outcome == "appended"
