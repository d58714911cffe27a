"""Tombstones: each closes many parts of a table at once, until a job closes the parts themselves."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "part_tombstones.sql")


class PartTombstone(NamedTuple):
    """The key of a tombstone, which closes parts of one kind at the stream version `valid_to`."""

    generation: int
    table_id: UUID
    kind: int
    valid_to: int


async def read_tombstones(connection: Connection) -> list[PartTombstone]:
    """The tombstones of the generation that is served. Only a rebuild uses other generations."""
    return [PartTombstone(*row) for row in await (await connection.execute(_SQL["tombstones"])).fetchall()]


async def close_parts(connection: Connection, tombstone: PartTombstone, after: int, limit: int) -> tuple[int, int]:
    """Closes at most `limit` open parts after the ordinal `after`. Returns their number and the last ordinal.

    It does not wait for the disk: a crash of Postgres may reopen the parts, but then the tombstone still exists.
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
