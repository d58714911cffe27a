"""Old metadata files that are still to be deleted."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "old_metadata_files.sql")


class PendingFile(NamedTuple):
    """key -- the file as a location claim key.

    begun -- its deletion has begun: it may be gone at any time, and is kept no more.
    others -- by its key it lies in a place that another table or view claims: it is not deleted.
    """

    key: str
    table_id: UUID
    location: str
    begun: bool
    others: bool


async def is_pending(connection: Connection, key: str) -> bool:
    return await (await connection.execute(_SQL["is_pending"], {"key": key})).fetchone() is not None


async def pending_warehouses(connection: Connection, without: Sequence[UUID]) -> list[UUID]:
    """Those with files to delete, but for `without`."""
    return [row[0] for row in await (await connection.execute(_SQL["warehouses"], {"without": list(without)})).fetchall()]


async def pending_files(connection: Connection, warehouse_id: UUID, limit: int) -> list[PendingFile]:
    """Of the warehouse, by key; without those that are begun and lie in another's place."""
    cursor = await connection.execute(_SQL["pending"], {"warehouse_id": warehouse_id, "limit": limit})
    return [PendingFile(*row) for row in await cursor.fetchall()]


async def begin(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Marks those that are still there as files whose deletion has begun; which they are."""
    return {row[0] for row in await (await connection.execute(_SQL["begin"], {"keys": list(keys)})).fetchall()}


async def remove(connection: Connection, *, deleted: Sequence[str], kept: Sequence[str]) -> None:
    """Of the kept only those whose deletion nobody has begun."""
    await connection.execute(_SQL["remove"], {"deleted": list(deleted), "kept": list(kept)})
