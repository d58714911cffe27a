"""Brings a database to the schema of this code: numbered .sql files, each once, in order, under a lock."""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString

import psycopg

from database.advisory_locks import AdvisoryLock, lock_transaction
from database.connection import connect
from database.named_sql import named_sql

_FILE_NAME = re.compile(r"^(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql$")


class MigrationError(Exception):
    """The database cannot be brought to the schema of this code; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file; `checksum` is sha256 over its text with line ends as \\n, in hex."""

    number: int
    name: str
    checksum: str
    text: LiteralString

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.name}"


def load_migrations() -> list[Migration]:
    """The migrations this code carries, by number; refuses two files of one number."""
    found: dict[int, Migration] = {}
    for entry in files("migrations").iterdir():
        match = _FILE_NAME.match(entry.name)
        if match is None:
            continue
        text = entry.read_text(encoding="utf-8").replace("\r\n", "\n")
        number, checksum = int(match["number"]), hashlib.sha256(text.encode()).hexdigest()
        migration = Migration(number, match["name"], checksum, text)
        if number in found:
            raise MigrationError(f"Two migrations have the number {number:04d}: {found[number]} and {migration}")
        found[number] = migration
    return [found[number] for number in sorted(found)]


async def apply_migrations(dsn: str, migrations: list[Migration] | None = None) -> list[str]:
    """Applies what is missing and answers the names of what was applied, oldest first; nothing to do: an empty list.

    Every migration runs in a transaction of its own that first takes the one advisory lock and looks again, so that any number
    of processes may start at once, also through a pooler that hands out connections per transaction.

    Raises MigrationError for a database that is newer than the code, was made by other texts, or misses one in between.
    """
    carried = load_migrations() if migrations is None else migrations
    applied: list[str] = []
    async with await connect(dsn, application_name="icecore-migrate") as connection:
        while True:
            async with connection.transaction():
                migration = await _apply_next(connection, carried)
            if migration is None:
                return applied
            applied.append(str(migration))


async def pending_migrations(dsn: str) -> list[str]:
    """The names of the migrations that are still to be applied; raises MigrationError as `apply_migrations` does."""
    async with await connect(dsn, application_name="icecore-migrate") as connection:
        return [str(migration) for migration in _pending(load_migrations(), await _recorded(connection))]


async def _apply_next(connection: psycopg.AsyncConnection, carried: list[Migration]) -> Migration | None:
    blocks = named_sql("migrations", "apply.sql")
    await lock_transaction(connection, AdvisoryLock.MIGRATIONS)
    pending = _pending(carried, await _recorded(connection))
    if not pending:
        return None
    migration = pending[0]
    await connection.execute(blocks["create_schema"])
    try:
        await connection.execute(migration.text)
    except psycopg.Error as error:
        raise MigrationError(f"Migration {migration} failed: {error}") from error
    await connection.execute(blocks["record"], (migration.number, migration.name, migration.checksum))
    return migration


async def _recorded(connection: psycopg.AsyncConnection) -> dict[int, tuple[str, str]]:
    """Name and checksum by number, as the database has them; empty where the table is not there yet."""
    blocks = named_sql("migrations", "apply.sql")
    exists = await (await connection.execute(blocks["exists"])).fetchone()
    if exists != (True,):
        return {}
    rows = await (await connection.execute(blocks["recorded"])).fetchall()
    return {number: (name, checksum) for number, name, checksum in rows}


def _pending(carried: list[Migration], recorded: dict[int, tuple[str, str]]) -> list[Migration]:
    unknown = sorted(recorded.keys() - {migration.number for migration in carried})
    if unknown:
        name, _ = recorded[unknown[-1]]
        raise MigrationError(
            f"The database is newer than this Icecore: it has migration {unknown[-1]:04d}_{name}, which this version does not know. "
            "Run the newer version, or restore a backup made before the upgrade"
        )
    newest = max(recorded, default=0)
    pending = []
    for migration in carried:
        if migration.number in recorded:
            _check_unchanged(migration, recorded[migration.number])
        elif migration.number < newest:
            raise MigrationError(f"The database misses migration {migration}, although it has {newest:04d}; it was not made by a release")
        else:
            pending.append(migration)
    return pending


def _check_unchanged(migration: Migration, recorded: tuple[str, str]) -> None:
    if recorded != (migration.name, migration.checksum):
        raise MigrationError(
            f"Migration {migration} was applied as {migration.number:04d}_{recorded[0]} with checksum {recorded[1][:12]}…, this code has "
            f"{migration.checksum[:12]}…: an applied migration was changed. Run the version that made this database"
        )
