"""Parts of a large document that are written before the append, so that the append does not insert them under its lock."""

import asyncio
import time
from uuid import UUID

from ...database.connections import OpenConnection
from ...projections import preloaded_parts
from .append_request import AppendRequest

# Parts are written beforehand only for an append request with more parts than this.
PARTS_APPENDED_MAX = 1_000
# For each statement, which takes a few milliseconds of Postgres and of this process.
_PARTS_PER_STATEMENT = 500
_PARTS_REMOVED_PER_STATEMENT = 5_000

# Each statement takes its own connection, so that other requests can use it in between.


class PreloadedPartsLost(Exception):
    """Preloaded parts are missing before the append: lost in a crash of Postgres, abandoned, or part of a removed generation."""


async def preload_parts(open_connection: OpenConnection, append_request: AppendRequest, table_id: UUID) -> None:
    """Writes the parts of an append request that creates the table `table_id`, if they are many, so that the append only adopts them.

    The parts belong to the generation that is served now; if that has changed by the time of the append, it returns `generation`.
    When this returns, the parts are durable. Raises PreloadedPartsLost if a crash of Postgres lost some of them before that. If the
    append is refused, `remove_preloaded_parts` removes them; after a crash the job in commands/tables/close_removed_parts.py does.
    """
    parts = append_request.rows.table_parts
    if len(parts) <= PARTS_APPENDED_MAX:
        return
    # By identity, because comparing the ids takes a few milliseconds.
    assert all(part.table_id is table_id for part in parts), "the table has no version yet, so its parts are not read"
    async with open_connection() as connection:
        generation = await preloaded_parts.register(connection, table_id)
    for start in range(0, len(parts), _PARTS_PER_STATEMENT):
        some = parts[start : start + _PARTS_PER_STATEMENT]
        began = time.monotonic()
        async with open_connection() as connection:
            await preloaded_parts.write(connection, table_id, generation, some)
        # Leaves half of the time to other requests.
        await asyncio.sleep(time.monotonic() - began)
    await _complete(open_connection, table_id, generation, len(parts))
    append_request.take_preloaded(table_id, generation, len(parts))


async def _complete(open_connection: OpenConnection, table_id: UUID, generation: int, parts: int) -> None:
    """Makes the preloaded parts durable and records their number. Raises PreloadedPartsLost if some are missing."""
    async with open_connection() as connection:
        are_complete = await preloaded_parts.complete(connection, table_id, generation, parts)
    if not are_complete:
        await remove_preloaded_parts(open_connection, table_id)
        raise PreloadedPartsLost


async def remove_preloaded_parts(open_connection: OpenConnection, table_id: UUID) -> None:
    """Removes preloaded parts, if they still exist. No append can adopt them any more."""
    async with open_connection() as connection:
        generation = await preloaded_parts.abandon(connection, table_id)
    if generation is not None:
        await _remove(open_connection, table_id, generation)


async def remove_left_over(open_connection: OpenConnection, seconds: float) -> int:
    """Removes parts that were registered longer than `seconds` ago, or whose removal was not finished. Returns the number of tables."""
    async with open_connection() as connection:
        left = await preloaded_parts.abandon_old(connection, seconds)
    for table_id, generation in left:
        await _remove(open_connection, table_id, generation)
    return len(left)


async def _remove(open_connection: OpenConnection, table_id: UUID, generation: int) -> None:
    removed = _PARTS_REMOVED_PER_STATEMENT
    while removed == _PARTS_REMOVED_PER_STATEMENT:
        async with open_connection() as connection:
            removed = await preloaded_parts.remove(connection, table_id, generation, _PARTS_REMOVED_PER_STATEMENT)
    async with open_connection() as connection:
        await preloaded_parts.forget(connection, table_id, generation)
