"""The serving role can add to the log, but not change or delete it, not even by disabling the trigger."""

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr
from uuid_utils.compat import uuid7

from icecore.domain.errors import CatalogError
from icecore.exit_codes import CommandFailed
from icecore.log_database import prepare_database, require_schema
from icecore.migrations.apply import load_functions, load_migrations
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from icecore.settings import Settings
from tests.fixtures.catalog import opened_catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun

# Tables that only append writes, and some of them a rebuild, which the owner runs.
APPENDED = (
    "events", "commands", "idempotency", "claims", "location_claims", "names", "projects", "warehouses", "namespaces", "tables", "views",
    "soft_deleted", "proposals", "tasks", "task_versions",
)  # fmt: skip

CHANGES = (
    "update icecore.events set actor = 'somebody else'",
    "delete from icecore.events",
    "truncate icecore.events",
    "alter table icecore.events disable trigger all",
    "drop table icecore.events cascade",
    "update icecore.commands set last_position = 0",
    "delete from icecore.commands",
    "delete from icecore.migrations",
    *(f"insert into icecore.{name} select * from icecore.{name}" for name in APPENDED),
    *(f"delete from icecore.{name}" for name in APPENDED if name != "idempotency"),
    "update icecore.idempotency set status = 200",
    "update icecore.read_models set generation = 7",
    "update icecore.table_parts set body = 'forged'",
    "update icecore.preloaded_parts set generation = 7",
    "select icecore.write_rows('{}', '{}', 1, 1)",
    "select icecore.write_claims('{}')",
    "alter function icecore.append(jsonb, bytea[]) security invoker",
    "lock table icecore.events",
    "create or replace function icecore.refuse_change() returns trigger language plpgsql as 'begin return new; end'",
)


@pytest.fixture
async def serving(database: str, admin_dsn: str) -> Iterator[str]:
    """The DSN of a role with only the rights that `icecore serve` grants at its start."""
    role = f"serving_{secrets.token_hex(6)}"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
    dsn = make_conninfo(database, user=role)
    await prepare_database(Settings(database_url=SecretStr(dsn), database_owner_url=SecretStr(database)))
    yield dsn
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


async def test_every_command_comes_through_and_a_rebuild_is_the_owners(serving: str, database: str, tmp_path: Path) -> None:
    """Serving needs no other rights."""
    async with opened_catalog(serving, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in EVERY_KIND:
            outcome = await run.step(step)
            assert not isinstance(outcome, CatalogError) or outcome.status == 409, (step, outcome)
    assert (await verify(serving)).ok
    await rebuild(database)
    assert (await verify(serving)).ok


async def test_a_role_that_owns_the_tables_keeps_its_rights(database: str, admin_dsn: str) -> None:
    """With the same role in both URLs: nothing is revoked, a warning is logged, and appends continue."""
    owner = f"owner_{secrets.token_hex(6)}"
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login").format(sql.Identifier(owner)))
        connection.execute(sql.SQL("create database {0} owner {0}").format(sql.Identifier(owner)))
    dsn = make_conninfo(admin_dsn, dbname=owner, user=owner)
    await prepare_database(Settings(database_url=SecretStr(dsn)))
    for owner_dsn in (dsn, make_conninfo(admin_dsn, dbname=owner)):
        with pytest.raises(CommandFailed, match="owns tables"):
            await prepare_database(Settings(database_url=SecretStr(dsn), database_owner_url=SecretStr(owner_dsn)))
    with psycopg.connect(dsn, autocommit=True) as connection:
        claims = {key: [] for key in ("parents", "empty", "release", "take", "release_locations", "take_locations")}
        commands = json.dumps([{"id": str(uuid7()), "expected_heads": [], "events": [], "claims": claims}])
        assert ("recorded", None) == connection.execute("select outcome, detail from icecore.append(%s, '{}')", [commands]).fetchone()
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(owner)))
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(owner)))


# The role's rights on each table: read, insert, update (columns in brackets), delete.
RIGHTS = {
    **dict.fromkeys((*APPENDED, "read_models", "migrations", "server"), "read"),
    "idempotency": "read, delete",
    "table_parts": "read, add, (valid_to), delete",
    "part_tombstones": "read, delete",
    "old_metadata_files": "read, delete, (begun)",
    "preloaded_parts": "read, add, (abandoned), (parts), delete",
    "metrics_reports": "read, add, delete",
    "secrets": "read, add, write",
    "sinks": "read, add, write",
    "warehouse_statistics": "read, add, write",
    "statistics_tracking": "read, (notification_id)",
    "search_names": "read, add, delete",
    "search_terms": "read, add, (objects), delete",
    "search_tracking": "read, (notification_id)",
    "endpoint_statistics": "read, add, write, delete",
    "task_runs": "read, add, write, delete",
    "sink_skips": "read, add",
    "sink_replays": "read, add, write",
}


async def test_the_role_has_these_rights_and_no_others(serving: str) -> None:
    """A new table has no rights until it is listed here and in migrations/serving_role.sql."""
    found: dict[str, str] = {}
    with psycopg.connect(serving, autocommit=True) as connection:
        for table, *rights, columns in connection.execute(_RIGHTS):
            names = [name for name, has in zip(("read", "add", "write", "delete", "truncate", "trigger"), rights, strict=True) if has]
            found[table] = ", ".join([*names[:2], *columns, *names[2:]])
        functions = connection.execute(
            "select proname from pg_proc where pronamespace = 'icecore'::regnamespace and has_function_privilege(oid, 'execute')"
        ).fetchall()
    assert dict(sorted(RIGHTS.items())) == dict(sorted(found.items()))
    assert [("append",)] == functions


_RIGHTS = """
select c.relname, has_table_privilege(c.oid, 'select'), has_table_privilege(c.oid, 'insert'), has_table_privilege(c.oid, 'update'),
       has_table_privilege(c.oid, 'delete'), has_table_privilege(c.oid, 'truncate'), has_table_privilege(c.oid, 'trigger'),
       case when has_table_privilege(c.oid, 'update') then '{}' else array(
         select '(' || a.attname || ')' from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and has_column_privilege(c.oid, a.attnum, 'update') order by a.attname) end
from pg_class c where c.relnamespace = 'icecore'::regnamespace and c.relkind = 'r'
"""


async def test_the_append_runs_nothing_of_whoever_calls_it(serving: str, database: str) -> None:
    """It runs with its owner's rights, so it must not look up names in the caller's schemas."""
    role = str(psycopg.conninfo.conninfo_to_dict(serving)["user"])
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema forged authorization {}").format(sql.Identifier(role)))
    with psycopg.connect(serving, autocommit=True) as connection:
        connection.execute(
            "create function forged.jsonb_array_length(jsonb) returns integer language plpgsql as "
            "'begin raise exception ''called as %'', current_user; end'"
        )
        connection.execute("set search_path = forged, pg_catalog")
        assert [] == connection.execute("select * from icecore.append('[]', '{}')").fetchall()


async def test_the_log_cannot_be_changed_and_nothing_written_beside_the_append(serving: str, tmp_path: Path) -> None:
    """Refused for missing rights before any trigger. The owner, who has the rights, is refused by the trigger."""
    async with opened_catalog(serving, tmp_path / "warehouse"):
        pass
    with psycopg.connect(serving) as connection:
        for change in CHANGES:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(change.encode())
            connection.rollback()


async def test_it_can_append_while_the_parameter_gets_its_new_name(serving: str, database: str) -> None:
    """Migration 0020 makes the function anew. Running servers append before the rights are granted again."""
    (renaming,) = [migration for migration in load_migrations() if migration.number == 20]
    earlier = re.sub(r"\bcommands(?= jsonb|\)|->)", "batch", load_functions())
    role = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(serving)["user"]))
    with psycopg.connect(database, autocommit=True) as owner, psycopg.connect(serving, autocommit=True) as connection:
        owner.execute("drop function icecore.append(jsonb, bytea[])")
        owner.execute(earlier)  # type: ignore[arg-type]
        owner.execute("revoke execute on function icecore.append(jsonb, bytea[]) from public")
        owner.execute(sql.SQL("grant execute on function icecore.append(jsonb, bytea[]) to {}").format(role))
        append = "select * from icecore.append(batch => '[]', blobs => '{}')"
        assert [] == connection.execute(append).fetchall()
        owner.execute(f"begin; {renaming.text}; {load_functions()}; commit")  # type: ignore[arg-type]
        with pytest.raises(errors.UndefinedFunction):
            connection.execute(append)
        assert [] == connection.execute("select * from icecore.append(commands => '[]', blobs => '{}')").fetchall()


async def test_rights_it_had_before_are_taken_away(serving: str, database: str) -> None:
    """Excess rights are revoked at the next start."""
    role = psycopg.conninfo.conninfo_to_dict(serving)["user"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("grant all on all tables in schema icecore to {}").format(sql.Identifier(str(role))))
    await prepare_database(Settings(database_url=SecretStr(serving), database_owner_url=SecretStr(database)))
    with psycopg.connect(serving, autocommit=True) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("delete from icecore.events")


async def test_another_role_that_may_append_is_named(serving: str, database: str) -> None:
    """The serving role is known only to itself, so only it reports other roles."""
    other = f"serving_{secrets.token_hex(6)}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(other)))
        for rights in ("execute on function icecore.append(jsonb, bytea[])", "delete on icecore.idempotency"):
            connection.execute(sql.SQL("grant {} to {}").format(sql.SQL(rights), sql.Identifier(other)))  # type: ignore[arg-type]
        named = [("pg_class", "idempotency", f"{other}: delete"), ("pg_proc", "function append", f"{other}: execute")]
        assert named == [(each.table, each.key, each.found) for each in (await verify(serving)).differences]
        assert (await verify(database)).ok
        connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(other)))


async def test_a_role_without_rights_gets_a_hint(serving: str, database: str) -> None:
    """As on a database that an older version serves as its owner."""
    role = psycopg.conninfo.conninfo_to_dict(serving)["user"]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("revoke all on schema icecore from {}").format(sql.Identifier(str(role))))
    with pytest.raises(CommandFailed, match=r"no privileges yet .* run `icecore migrate` first"):
        await require_schema(Settings(database_url=SecretStr(serving)))


async def test_a_role_that_may_not_create_the_schema_needs_the_owner(serving: str, empty_database: str, database: str) -> None:
    """By `migrate` and `serve`. Running `migrate` first would not help."""
    role = str(psycopg.conninfo.conninfo_to_dict(serving)["user"])
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("revoke all on schema icecore from {}").format(sql.Identifier(role)))
    for dsn in (make_conninfo(empty_database, user=role), serving):
        with pytest.raises(CommandFailed, match=r"DATABASE_URL may not set up the schema icecore .*set ICECORE_DATABASE_OWNER_URL"):
            await prepare_database(Settings(database_url=SecretStr(dsn)))
    with pytest.raises(CommandFailed, match=r"DATABASE_OWNER_URL may not set up the schema icecore"):
        await prepare_database(Settings(database_url=SecretStr(database), database_owner_url=SecretStr(serving)))
