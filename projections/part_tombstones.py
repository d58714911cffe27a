"""Tombstones: each closes many parts of a table at once, until a job closes the parts themselves."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "part_tombstones.sql")


class PartTombstone(NamedTuple):
    """Its key: it closes parts of one kind at the stream version `valid_to`."""

    generation: int
    table_id: UUID
    kind: int
    valid_to: int


async def read_tombstones(connection: Connection) -> list[PartTombstone]:
    """Those of the generation that is served: no other is anybody's but a rebuild's."""
    return [PartTombstone(*row) for row in await (await connection.execute(_SQL["tombstones"])).fetchall()]


async def close_parts(connection: Connection, tombstone: PartTombstone, after: int, limit: int) -> tuple[int, int]:
    """Closes the next open parts behind the ordinal `after`, at most `limit`: how many, and the last one's ordinal.

    Without waiting for the disk: a crash of Postgres may open them again, and then the tombstone is still there.
    """
    cursor = await connection.execute(_SQL["close"], {**_key(tombstone), "after": after, "limit": limit})
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def remove_if_closed(connection: Connection, tombstone: PartTombstone) -> None:
    """Removes the tombstone, unless one of its parts is still open."""
    await connection.execute(_SQL["remove_if_closed"], _key(tombstone))


def _key(tombstone: PartTombstone) -> Mapping[str, object]:
    return tombstone._asdict()
