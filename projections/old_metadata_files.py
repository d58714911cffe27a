"""Old metadata files that are still to be deleted."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "old_metadata_files.sql")


class PendingFile(NamedTuple):
    """key -- the file as a location claim key.

    begun -- its deletion has begun. It may disappear at any time, and can no longer be kept.
    others -- it is in a location that another table or view claims, so it is not deleted.
    """

    key: str
    table_id: UUID
    location: str
    begun: bool
    others: bool


async def is_pending(connection: Connection, key: str) -> bool:
    return await (await connection.execute(_SQL["is_pending"], {"key": key})).fetchone() is not None


async def pending_warehouses(connection: Connection, without: Sequence[UUID]) -> list[UUID]:
    """Warehouses with files to delete, except `without`."""
    return [row[0] for row in await (await connection.execute(_SQL["warehouses"], {"without": list(without)})).fetchall()]


async def pending_files(connection: Connection, warehouse_id: UUID, limit: int) -> list[PendingFile]:
    """Files of the warehouse, ordered by key, except those whose deletion has begun and that are in another object's location."""
    cursor = await connection.execute(_SQL["pending"], {"warehouse_id": warehouse_id, "limit": limit})
    return [PendingFile(*row) for row in await cursor.fetchall()]


async def begin(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Marks files as being deleted. Returns those that are still recorded."""
    return {row[0] for row in await (await connection.execute(_SQL["begin"], {"keys": list(keys)})).fetchall()}


async def remove(connection: Connection, *, deleted: Sequence[str], kept: Sequence[str]) -> None:
    """Removes the records of deleted and kept files; of the kept ones, only those whose deletion has not begun."""
    await connection.execute(_SQL["remove"], {"deleted": list(deleted), "kept": list(kept)})
