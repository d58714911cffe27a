"""The rights of the server role: it reads, appends, and writes what is not derived from the log."""

from typing import Any

from psycopg import AsyncConnection, sql

from ..database.advisory_locks import AdvisoryLock, lock_transaction
from ..database.connection import connect
from ..database.named_sql import named_sql
from .apply import MigrationError

_SQL = named_sql("icecore.migrations", "serving_role.sql")


class ServingRoleOwnsError(MigrationError):
    """The serving role owns objects of the schema. `icecore.append` has its owner's rights and could not write if the role lost them."""


async def grant_serving(owner_dsn: str, serving_dsn: str) -> None:
    """Grants the role of `serving_dsn` the rights that serving needs, as the schema's owner.

    The role adds to the log, to the rows derived from it and to the claims only through `icecore.append`, and cannot change or delete them.
    Raises ServingRoleOwnsError if the role owns any table or function of the schema.
    """
    async with await connect(serving_dsn, application_name="icecore-migrate") as connection:
        role = connection.info.user
    async with await connect(owner_dsn, autocommit=False, application_name="icecore-migrate") as connection:
        await lock_transaction(connection, AdvisoryLock.MIGRATIONS)
        if await role_owns(connection, role):
            raise ServingRoleOwnsError(
                "The role of ICECORE_DATABASE_URL owns tables of the schema icecore: set the URL of the server role there, and the owner's "
                "in ICECORE_DATABASE_OWNER_URL; or leave ICECORE_DATABASE_OWNER_URL out"
            )
        await connection.execute(sql.SQL(_SQL["rights"]).format(role=sql.Identifier(role)))


async def role_owns(connection: AsyncConnection[Any], role: str) -> bool:
    """Whether the role owns any table or function of the schema."""
    return await (await connection.execute(_SQL["owns"], {"role": role})).fetchone() == (True,)
