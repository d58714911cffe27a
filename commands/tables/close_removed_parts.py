"""The job that closes removed parts, in small statements outside the append lock, and deletes parts of appends that did not happen.

It can be stopped at any moment. A tombstone is deleted once its parts are closed on disk. Readers use it until then.
"""

import asyncio
import time

import structlog

from ...database.advisory_locks import AdvisoryLock
from ...projections.part_tombstones import PartTombstone, close_parts, read_tombstones, remove_if_closed
from ..execution.leader_job import LeaderJob
from ..execution.preloaded_parts import remove_left_over

_log = structlog.get_logger("icecore.parts")

# Much longer than a command may take, so the process that wrote the parts has ended. A late append is decided again.
PRELOADED_SECONDS_MAX = 600.0
# Parts per statement. Statements are short, so that concurrent commits are not delayed by their flush.
_PARTS_PER_STATEMENT = 500
# The pause between two statements, as a multiple of the previous one's duration, so that requests get most of the disk's time.
_PAUSE_FACTOR = 3
# How long one round leads. The next round continues.
_ROUND_SECONDS_MAX = 5.0


class ClosePartsJob(LeaderJob):
    """Closes parts while it is the leader. No rebuild deletes a generation meanwhile."""

    NAME = "close-parts"
    LEADER_LOCK = AdvisoryLock.CLOSE_PARTS_JOB

    async def run_once(self, *, preloaded_seconds_max: float = PRELOADED_SECONDS_MAX) -> int:
        """Closes pending parts, if no other process leads. Returns their number."""
        return await self.lead(lambda _: self._round(preloaded_seconds_max))

    async def _round(self, preloaded_seconds_max: float) -> int:
        closed, until = 0, time.monotonic() + _ROUND_SECONDS_MAX
        async with self._executor.connection() as connection:
            tombstones = await read_tombstones(connection)
        for tombstone in tombstones:
            closed += await self._close_parts(tombstone, until)
        removed = await remove_left_over(self._executor.connection, preloaded_seconds_max)
        if closed or removed:
            _log.info("removed_parts_closed", closed=closed, preloads_removed=removed)
        return closed

    async def _close_parts(self, tombstone: PartTombstone, until: float) -> int:
        """Closes the tombstone's parts in order of their ordinals, and deletes the tombstone when all are closed. Returns the number of
        parts closed.
        """
        closed, after = 0, -1
        while (began := time.monotonic()) <= until:
            async with self._executor.connection() as connection:
                some, last = await close_parts(connection, tombstone, after, _PARTS_PER_STATEMENT)
                closed += some
                if some < _PARTS_PER_STATEMENT:
                    await remove_if_closed(connection, tombstone)
                    break
            after = last
            await asyncio.sleep(_PAUSE_FACTOR * (time.monotonic() - began))
        return closed
