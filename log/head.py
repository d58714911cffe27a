"""The end of the log, and whether the log can be written."""

from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.log", "head.sql")


async def is_read_only(connection: Connection) -> bool:
    """Whether Postgres accepts no writes, because it is a standby or set to read-only."""
    return await (await connection.execute(_SQL["is_read_only"])).fetchone() == (True,)


async def is_standby(connection: Connection) -> bool:
    """Whether Postgres replays the log of another server."""
    return await (await connection.execute(_SQL["is_standby"])).fetchone() == (True,)


async def log_head(connection: Connection) -> int:
    """The position of the last event; 0 if the log is empty."""
    row = await (await connection.execute(_SQL["log_head"])).fetchone()
    assert row is not None
    return int(row[0])


async def last_position_outside(connection: Connection, warehouse_id: UUID, after: int) -> int | None:
    """The last position, after `after`, whose event is not of the warehouse; None if there is none."""
    row = await (await connection.execute(_SQL["last_position_outside"], {"warehouse_id": warehouse_id, "after": after})).fetchone()
    return None if row is None else int(row[0])


async def log_head_and_standbys(connection: Connection) -> tuple[int, bool]:
    """As log_head, and whether commits wait for standbys, which may not have that event yet."""
    row = await (await connection.execute(_SQL["log_head_and_standbys"])).fetchone()
    assert row is not None
    return row[0], row[1]
