"""Old metadata files that are still to be deleted: commits removed them from their tables' metadata logs."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from migrations.named_sql import named_sql
from projections.postgres import Connection

_SQL = named_sql("projections", "old_metadata_files.sql")


class PendingFile(NamedTuple):
    """key -- the file as a location claim key."""

    key: str
    table_id: UUID
    location: str


async def is_pending(connection: Connection, key: str) -> bool:
    return await (await connection.execute(_SQL["is_pending"], {"key": key})).fetchone() is not None


async def pending_warehouses(connection: Connection, without: Sequence[UUID]) -> list[UUID]:
    """Those with files to delete, but for `without`."""
    return [row[0] for row in await (await connection.execute(_SQL["warehouses"], {"without": list(without)})).fetchall()]


async def pending_files(connection: Connection, warehouse_id: UUID, limit: int) -> list[PendingFile]:
    cursor = await connection.execute(_SQL["pending"], {"warehouse_id": warehouse_id, "limit": limit})
    return [PendingFile(*row) for row in await cursor.fetchall()]


async def remove(connection: Connection, keys: Sequence[str]) -> None:
    """Once they are deleted, or kept."""
    await connection.execute(_SQL["remove"], {"keys": list(keys)})
