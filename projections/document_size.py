"""The size of the document of a table or view, before it is read."""

from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "document_size.sql")


async def document_size(connection: Connection, object_id: UUID, version: int) -> int:
    """Bytes of a table or view as of a version of its stream, including parts that a tombstone closes; 0 if it does not exist."""
    row = await (await connection.execute(_SQL["document_size"], {"object_id": object_id, "version": version})).fetchone()
    assert row is not None
    size: int = row[0]
    return size
