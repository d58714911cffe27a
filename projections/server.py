"""What identifies the servers of one database. It is not derived from the log."""

from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "server.sql")


async def read_server_id(connection: Connection) -> UUID:
    """The id that the database got with its schema."""
    row = await (await connection.execute(_SQL["server_id"])).fetchone()
    assert row is not None, "a migrated database has one"
    server_id: UUID = row[0]
    return server_id
