"""Applies migrations: each numbered .sql file once and in order, and the newest form of the functions.

The files of `migrations/functions/` replace the functions in the database whenever a migration is applied, in its transaction. A changed
function therefore needs a new migration, which may contain only a comment: the number tells which program is newer, and the older
program is refused. Running servers of the previous version use the new functions, which must accept what those servers send. If
parameters or the result of a function change, its file drops the earlier form first (`drop function if exists`). The server role is
granted the new one after the migration (`migrations/serving_role.py`).
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import LiteralString

import psycopg

from ..database.advisory_locks import AdvisoryLock, lock_transaction
from ..database.connection import connect, lift_time_limits
from ..database.named_sql import named_sql

_SQL = named_sql("icecore.migrations", "apply.sql")
_FILE_NAME = re.compile(r"^(?P<number>\d{4})_(?P<name>[a-z0-9_]+)\.sql$")
_NOT_RELEASED = (1, "log")
"""The first migration of builds from before the first release."""
_MADE_BY_ANOTHER = "Run the version that made this database, or register its tables in a new one: see 'Upgrade' in the documentation"


class MigrationError(Exception):
    """The schema of the database cannot be migrated to that of this version; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file. `checksum` -- sha256 in hex of its text, with \\n as line end."""

    number: int
    name: str
    checksum: str
    text: LiteralString

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.name}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """An applied migration in the database. `functions` -- the checksum of the functions that were applied with it."""

    name: str
    checksum: str
    functions: str | None


def load_migrations() -> list[Migration]:
    """The migrations of this version by number. Raises MigrationError if two files have the same number."""
    found: dict[int, Migration] = {}
    for entry in files("icecore.migrations").iterdir():
        match = _FILE_NAME.match(entry.name)
        if match is None:
            continue
        text = _text(entry)
        migration = Migration(int(match["number"]), match["name"], checksum(text), text)
        if migration.number in found:
            raise MigrationError(f"Two migrations have the number {migration.number:04d}: {found[migration.number]} and {migration}")
        found[migration.number] = migration
    return [found[number] for number in sorted(found)]


def load_functions() -> LiteralString:
    """The functions of this version, from its files in alphabetical order. Trigger functions are in the migrations."""
    entries = sorted(files("icecore.migrations").joinpath("functions").iterdir(), key=lambda entry: entry.name)
    return "\n".join(_text(entry) for entry in entries if entry.name.endswith(".sql"))


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def apply_migrations(dsn: str, migrations: list[Migration] | None = None, functions: LiteralString | None = None) -> list[str]:
    """Applies the missing migrations and returns their names, oldest first.

    Everything is one transaction, which takes an advisory lock first. So any number of processes may start at once, also through a pooler
    in transaction mode.

    Raises MigrationError if the database is newer than the program, was migrated with other texts, or lacks a migration in between.
    """
    carried = load_migrations() if migrations is None else migrations
    newest = load_functions() if functions is None else functions
    async with await connect(dsn, application_name="icecore-migrate") as connection, connection.transaction():
        await lift_time_limits(connection, local=True)
        await lock_transaction(connection, AdvisoryLock.MIGRATIONS)
        pending = _pending(carried, checksum(newest), await _recorded(connection))
        if pending:
            # No append is in progress meanwhile: an append holds this lock while it waits for tables, which migrations lock.
            await lock_transaction(connection, AdvisoryLock.APPEND)
            await connection.execute(_SQL["create_schema"])
            for migration in pending:
                await _execute(connection, f"Migration {migration}", migration.text)
                await connection.execute(_SQL["record"], (migration.number, migration.name, migration.checksum, checksum(newest)))
            await _execute(connection, "Creating the functions", newest)
            await connection.execute(_SQL["close_functions"])
        return [str(migration) for migration in pending]


async def pending_migrations(dsn: str) -> list[str]:
    """The names of the migrations to be applied. Raises MigrationError as `apply_migrations` does."""
    async with await connect(dsn, application_name="icecore-migrate") as connection:
        pending = _pending(load_migrations(), checksum(load_functions()), await _recorded(connection))
        return [str(migration) for migration in pending]


async def missing_migrations(connection: psycopg.AsyncConnection) -> list[str]:
    """The migrations of this version that the database lacks. A newer database lacks none, so that running servers continue."""
    recorded = await _recorded(connection)
    return [name for number, name in _carried_names() if number not in recorded]


@cache
def _carried_names() -> list[tuple[int, str]]:
    return [(migration.number, str(migration)) for migration in load_migrations()]


async def _execute(connection: psycopg.AsyncConnection, what: str, text: LiteralString) -> None:
    try:
        await connection.execute(text)
    except psycopg.Error as error:
        raise MigrationError(f"{what} failed: {error}") from error


async def _recorded(connection: psycopg.AsyncConnection) -> dict[int, Recorded]:
    """The applied migrations by number; empty if the table does not exist yet."""
    exists = await (await connection.execute(_SQL["exists"])).fetchone()
    if exists != (True,):
        return {}
    rows = await (await connection.execute(_SQL["recorded"])).fetchall()
    return {number: Recorded(*rest) for number, *rest in rows}


def _pending(carried: list[Migration], functions: str, recorded: dict[int, Recorded]) -> list[Migration]:
    """functions -- the checksum of this version's functions."""
    number, name = _NOT_RELEASED
    if number in recorded and recorded[number].name == name:
        raise MigrationError(
            "The database was made by a build from before the first release, which no version upgrades. Run that build, "
            "or start with a new data folder (--data) or database, and register its tables there: see 'Upgrade' in the documentation"
        )
    unknown = sorted(recorded.keys() - {migration.number for migration in carried})
    if unknown:
        raise MigrationError(
            f"The database is newer than this Icecore: it has migration {unknown[-1]:04d}_{recorded[unknown[-1]].name}, which this version "
            "does not know. Run the newer version, or restore a backup made before the upgrade"
        )
    newest = max(recorded, default=0)
    pending = []
    for migration in carried:
        if migration.number in recorded:
            _check_unchanged(migration, recorded[migration.number])
        elif migration.number < newest:
            raise MigrationError(f"The database lacks migration {migration}, although it has {newest:04d}; it was not made by a release")
        else:
            pending.append(migration)
    if not pending and recorded and recorded[newest].functions != functions:
        raise MigrationError(
            f"The functions of the database came with migration {newest:04d}_{recorded[newest].name} and are not those of this code, which "
            f"knows no later one: a change of functions needs a migration. {_MADE_BY_ANOTHER}"
        )
    return pending


def _check_unchanged(migration: Migration, recorded: Recorded) -> None:
    if (recorded.name, recorded.checksum) != (migration.name, migration.checksum):
        raise MigrationError(
            f"Migration {migration} was applied as {migration.number:04d}_{recorded.name} with checksum {recorded.checksum[:12]}…, "
            f"this code has {migration.checksum[:12]}…: an applied migration was changed. {_MADE_BY_ANOTHER}"
        )


def _text(file: Traversable) -> LiteralString:
    """The text of the file with \\n as line end."""
    return file.read_text(encoding="utf-8")
