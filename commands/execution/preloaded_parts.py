"""Parts of a large document that are written before the append, so that the append does not insert them under its lock."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from ...database.connections import Connection
from ...projections import preloaded_parts
from .submission import Submission

# A submission with more parts than these is worth the statements beforehand.
PARTS_APPENDED_MAX = 1_000
# Written by one statement: some milliseconds of Postgres and of this process.
_PARTS_PER_STATEMENT = 500
_PARTS_REMOVED_PER_STATEMENT = 5_000

# One is taken for each statement: others wait for connections too, and no use of one is long.
Connections = Callable[[], AbstractAsyncContextManager[Connection]]


class PreloadedPartsLost(Exception):
    """Parts that were staged are gone before the append: lost in a crash of Postgres, given up, or of a generation that was removed."""


async def preload_parts(connections: Connections, submission: Submission, table_id: UUID) -> None:
    """Writes the parts of a submission that begins the table `table_id`, if they are many: the append then only takes them over.

    The parts belong to the generation that is served now; if another generation is served by then, append answers `generation`.
    When this returns, the parts are durable. Raises PreloadedPartsLost if a crash of Postgres lost some of them before that. If the
    append is refused, `remove_preloaded_parts` removes them; after a crash the job in commands/tables/close_removed_parts.py does.
    """
    parts = submission.rows.table_parts
    if len(parts) <= PARTS_APPENDED_MAX:
        return
    # By identity: comparing ids takes the event loop some milliseconds.
    assert all(part.table_id is table_id for part in parts), "nobody reads the parts of a table without a head"
    async with connections() as connection:
        generation = await preloaded_parts.register(connection, table_id)
    for start in range(0, len(parts), _PARTS_PER_STATEMENT):
        some = parts[start : start + _PARTS_PER_STATEMENT]
        began = time.monotonic()
        async with connections() as connection:
            await preloaded_parts.write(connection, table_id, generation, some)
        # Half of the time is others'.
        await asyncio.sleep(time.monotonic() - began)
    await _complete(connections, table_id, generation, len(parts))
    submission.take_preloaded(table_id, generation, len(parts))


async def _complete(connections: Connections, table_id: UUID, generation: int, parts: int) -> None:
    """Makes the staged parts durable and records how many they are. Raises PreloadedPartsLost where some are gone."""
    async with connections() as connection:
        are_complete = await preloaded_parts.complete(connection, table_id, generation, parts)
    if not are_complete:
        await remove_preloaded_parts(connections, table_id)
        raise PreloadedPartsLost


async def remove_preloaded_parts(connections: Connections, table_id: UUID) -> None:
    """Takes staged parts away, if they still are: from here on no append can come to effect on them."""
    async with connections() as connection:
        generation = await preloaded_parts.give_up(connection, table_id)
    if generation is not None:
        await _remove(connections, table_id, generation)


async def remove_left_over(connections: Connections, seconds: float) -> int:
    """Removes what was staged longer than `seconds` ago, and what somebody gave up and did not finish; of how many tables."""
    async with connections() as connection:
        left = await preloaded_parts.give_up_old(connection, seconds)
    for table_id, generation in left:
        await _remove(connections, table_id, generation)
    return len(left)


async def _remove(connections: Connections, table_id: UUID, generation: int) -> None:
    removed = _PARTS_REMOVED_PER_STATEMENT
    while removed == _PARTS_REMOVED_PER_STATEMENT:
        async with connections() as connection:
            removed = await preloaded_parts.remove(connection, table_id, generation, _PARTS_REMOVED_PER_STATEMENT)
    async with connections() as connection:
        await preloaded_parts.forget(connection, table_id, generation)
