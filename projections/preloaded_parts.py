"""Parts of future tables, written before the append that creates the table's first version. Until then they are never read.

A row of `icecore.preloaded_parts` refers to their table until the append adopts them, or until they are deleted.
"""

from collections.abc import Sequence
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection
from ..domain.read_models.definitions import PartRow

_SQL = named_sql("icecore.projections", "preloaded_parts.sql")


async def register(connection: Connection, table_id: UUID) -> int:
    """Registers a table before its first part is written. Returns the generation that is served, to which the parts will belong."""
    row = await (await connection.execute(_SQL["register"], {"table_id": table_id})).fetchone()
    assert row is not None
    generation: int = row[0]
    return generation


async def write(connection: Connection, table_id: UUID, generation: int, parts: Sequence[PartRow]) -> None:
    """Writes some of the table's parts. A crash of Postgres may lose them until `complete`."""
    columns = dict(zip(PartRow._fields, map(list, zip(*parts, strict=True)), strict=True))
    await connection.execute(_SQL["write"], {**columns, "generation": generation, "table_id": table_id})


async def complete(connection: Connection, table_id: UUID, generation: int, parts: int) -> bool:
    """Makes the parts durable and records their number. Returns False, without a change, if some are missing or abandoned."""
    cursor = await connection.execute(_SQL["complete"], {"table_id": table_id, "generation": generation, "parts": parts})
    return cursor.rowcount == 1


async def abandon(connection: Connection, table_id: UUID) -> int | None:
    """Abandons parts, so that no append can adopt them. Returns their generation; None if there are none."""
    row = await (await connection.execute(_SQL["abandon"], {"table_id": table_id})).fetchone()
    return None if row is None else row[0]


async def abandon_old(connection: Connection, seconds: float) -> list[tuple[UUID, int]]:
    """Abandons parts registered longer than `seconds` ago. Returns the tables and generations of all abandoned parts."""
    cursor = await connection.execute(_SQL["abandon_old"], {"seconds": seconds})
    return [(table_id, generation) for table_id, generation in await cursor.fetchall()]


async def remove(connection: Connection, table_id: UUID, generation: int, limit: int) -> int:
    """Removes at most `limit` abandoned parts. Returns their number."""
    cursor = await connection.execute(_SQL["remove"], {"table_id": table_id, "generation": generation, "limit": limit})
    return cursor.rowcount


async def forget(connection: Connection, table_id: UUID, generation: int) -> None:
    """Removes the registration, once all parts are removed."""
    await connection.execute(_SQL["forget"], {"table_id": table_id, "generation": generation})
