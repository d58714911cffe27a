"""The role that serves may add to the log, and neither change nor remove what is in it: not even with the trigger out of the way."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from domain.errors import CatalogError
from icecore.exit_codes import CommandFailed
from icecore.log_database import prepare_database, require_schema
from icecore.settings import Settings
from projections.rebuild import rebuild
from projections.verify import verify
from tests.fixtures.catalog import opened_catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun

CHANGES = (
    "update icecore.events set actor = 'somebody else'",
    "delete from icecore.events",
    "truncate icecore.events",
    "alter table icecore.events disable trigger all",
    "drop table icecore.events cascade",
    "update icecore.commands set last_position = 0",
    "delete from icecore.commands",
    "delete from icecore.migrations",
    "create or replace function icecore.refuse_change() returns trigger language plpgsql as 'begin return new; end'",
)


@pytest.fixture
async def serving(database: str, admin_dsn: str) -> Iterator[str]:
    """The DSN of a role that has nothing but what `icecore serve` gives it at its start."""
    role = f"serving_{secrets.token_hex(6)}"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
    dsn = make_conninfo(database, user=role)
    await prepare_database(Settings(database_url=SecretStr(dsn), database_owner_url=SecretStr(database)))
    yield dsn
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


async def test_every_command_and_a_rebuild_come_through(serving: str, tmp_path: Path) -> None:
    """What serves needs no more rights than it is given."""
    async with opened_catalog(serving, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in EVERY_KIND:
            outcome = await run.step(step)
            assert not isinstance(outcome, CatalogError) or outcome.status == 409, (step, outcome)
    assert (await verify(serving)).ok
    await rebuild(serving)
    assert (await verify(serving)).ok


@pytest.mark.parametrize("change", CHANGES)
async def test_the_log_cannot_be_changed(serving: str, tmp_path: Path, change: str) -> None:
    """Refused for want of rights, before any trigger is asked; the owner, who has them, meets the trigger."""
    async with opened_catalog(serving, tmp_path / "warehouse"):
        pass
    with psycopg.connect(serving, autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(change.encode())


async def test_rights_it_had_before_are_taken_away(serving: str, database: str) -> None:
    """Whoever granted too much is put right at the next start."""
    role = psycopg.conninfo.conninfo_to_dict(serving)["user"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("grant all on all tables in schema icecore to {}").format(sql.Identifier(str(role))))
    await prepare_database(Settings(database_url=SecretStr(serving), database_owner_url=SecretStr(database)))
    with psycopg.connect(serving, autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("delete from icecore.events")


async def test_a_role_that_nobody_has_granted_anything_is_told_what_to_do(serving: str, database: str) -> None:
    """As on a database that an older version serves by its owner."""
    role = psycopg.conninfo.conninfo_to_dict(serving)["user"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("revoke all on schema icecore from {}").format(sql.Identifier(str(role))))
    with pytest.raises(CommandFailed, match=r"no rights yet .* run `icecore migrate` first"):
        await require_schema(Settings(database_url=SecretStr(serving)))
