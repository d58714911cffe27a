"""The rights of a role that serves and does not own: to read, to append, and to write what is not derived from the log."""

from psycopg import sql

from migrations.connection import connect
from migrations.named_sql import named_sql


async def grant_serving(owner_dsn: str, serving_dsn: str) -> None:
    """Grants the role of `serving_dsn` what serving needs, as the schema's owner.

    It adds to the log, to the rows derived from it and to the claims through `icecore.append` alone, and cannot change or remove one.
    """
    async with await connect(serving_dsn, application_name="icecore-migrate") as connection:
        role = connection.info.user
    async with await connect(owner_dsn, autocommit=False, application_name="icecore-migrate") as connection:
        await connection.execute(named_sql("migrations", "apply.sql")["lock"])
        grants = named_sql("migrations", "serving_role.sql")
        await connection.execute(sql.SQL(grants["rights"]).format(role=sql.Identifier(role)))
