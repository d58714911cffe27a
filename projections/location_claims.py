"""Location claims of namespaces, of tables and views, and of purges until they end."""

from collections.abc import Sequence
from uuid import UUID

from ..database.named_sql import named_sql
from ..database.postgres import Connection

_SQL = named_sql("icecore.projections", "location_claims.sql")


async def first_taken(connection: Connection, keys: Sequence[str], owner: UUID | None) -> str | None:
    """The first of `keys` that a table or view cannot claim because of a claim of an object other than `owner`."""
    for key in keys:
        around = [key[:end] for end, character in enumerate(key, start=1) if character == "/"]
        # '0' follows '/'.
        parameters = {"around": around, "key": key, "behind": f"{key[:-1]}0", "owner": owner}
        if await (await connection.execute(_SQL["taken"], parameters)).fetchone() is not None:
            return key
    return None
