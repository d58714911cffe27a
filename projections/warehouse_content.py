"""What keeps a warehouse from being deleted."""

from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "warehouse_content.sql")


async def content_kind(connection: Connection, warehouse_id: UUID) -> str | None:
    """The kind of something in the warehouse that keeps it from being deleted; None if it is empty."""
    row = await (await connection.execute(_SQL["content_kind"], {"warehouse_id": warehouse_id})).fetchone()
    assert row is not None, "one row"
    kind: str | None = row[0]
    return kind
