"""The rights of a role that serves and does not own: everything but changing the log, and the schema."""

from psycopg import sql

from migrations.connection import connect
from migrations.named_sql import named_sql

# Before, only a table's owner analyzes it; autovacuum does it then.
_MAINTAIN_SINCE = 170000


async def grant_serving(owner_dsn: str, serving_dsn: str) -> None:
    """Grants the role of `serving_dsn` what serving needs, as the schema's owner.

    It may read and add events and commands, and cannot change or remove one: the trigger on the log is not the only guard.
    """
    async with await connect(serving_dsn, application_name="icecore-migrate") as connection:
        role = connection.info.user
    async with await connect(owner_dsn, autocommit=False, application_name="icecore-migrate") as connection:
        await connection.execute(named_sql("migrations", "apply.sql")["lock"])
        grants = named_sql("migrations", "serving_role.sql")
        await connection.execute(sql.SQL(grants["rights"]).format(role=sql.Identifier(role)))
        if connection.info.server_version >= _MAINTAIN_SINCE:
            await connection.execute(sql.SQL(grants["rights_to_analyze"]).format(role=sql.Identifier(role)))
