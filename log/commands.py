"""The commands of the log: each appended its events at once."""

from collections.abc import Iterable
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.log", "commands.sql")


async def event_counts(connection: Connection, command_ids: Iterable[UUID]) -> dict[UUID, int]:
    """How many events each of these commands has."""
    cursor = await connection.execute(_SQL["event_counts"], {"ids": [*command_ids]}, binary=True)
    return dict(await cursor.fetchall())
