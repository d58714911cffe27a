"""Reads commands of the log."""

from collections.abc import Iterable
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.log", "commands.sql")


async def event_counts(connection: Connection, command_ids: Iterable[UUID]) -> dict[UUID, int]:
    """The number of events of each of these commands."""
    cursor = await connection.execute(_SQL["event_counts"], {"ids": [*command_ids]}, binary=True)
    return dict(await cursor.fetchall())
