"""The migrations runner and the server check, on a real Postgres."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from uuid_utils.compat import uuid7

from commands.execution.committer import Committer
from commands.execution.submission import Submission
from database import connection as connection_module
from domain.events import Event, TableCreated, TableDropped, ViewCreated, ViewDropped
from domain.metadata.create import new_table_metadata
from domain.table import TableState
from domain.view import ViewState
from domain.view_metadata.builder import new_view_metadata
from icecore.server_check import UnfitServerError, check_server
from migrations.apply import Migration, MigrationError, apply_migrations, load_migrations, pending_migrations
from projections.verify import verify
from tests.fixtures.catalog import context
from tests.fixtures.rest_client import SCHEMA, view_version

WAREHOUSE_ID = uuid7()
CHECKSUMS = {
    "0001_log": "00260ee8d5dbe23a1619c5e98086b791ddad8cf8854f647881e667458db6bcef",
    "0002_secrets": "ec0aaa3007308da8d161c39932d7ca7b34db4f7d9be8fdb303392f82a4c06086",
    "0003_read_models": "fb5f5725a5198eea22e42e54f9e2f50734450ae537cb67ac10f1ab2210329184",
    "0010_sinks": "99037d9bea16380da653895ba83d2b9f36055b31001b624a005b53e683487216",
    "0011_proposals": "c79f2407f2a7ff7a70edd7e1a22cae2a6c6fcb52da88da8dc489f558c9c1ca32",
    "0012_append_loops": "b973a3c215a98855ce68b0b40d8475353603565c3c9a350279e45278126f21a8",
    "0013_functions": "1515cf97637b7db5b39e89f6448c62ccf2fe5e75f1c5bacac9ef6e982222b246",
}


def migration(number: int, text: str, checksum: str = "c") -> Migration:
    return Migration(number, f"step_{number}", checksum, text)


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'icecore' ORDER BY 1").fetchall()
    return [name for (name,) in found]


async def test_an_empty_database_gets_every_migration_in_order(empty_database: str) -> None:
    """What is answered is what was applied, and it is what pending said."""
    expected = [str(migration) for migration in load_migrations()]
    assert expected == await pending_migrations(empty_database)
    assert sorted(CHECKSUMS) == expected
    assert expected == await apply_migrations(empty_database)
    with psycopg.connect(empty_database) as connection:
        applied = connection.execute("select number from icecore.migrations order by applied_at, number").fetchall()
    assert [int(name[:4]) for name in expected] == [number for (number,) in applied]
    assert [] == await pending_migrations(empty_database)


async def test_idempotency_keys_of_an_older_schema_are_tied_to_the_log(empty_database: str) -> None:
    """Those recorded before migration 0013 have no hash; the migration gives them theirs."""
    await apply_migrations(empty_database, [carried for carried in load_migrations() if carried.number < 13])
    with psycopg.connect(empty_database) as connection:
        command = "insert into icecore.commands (command_id, last_position, recorded_at) values (gen_random_uuid(), 0, now())"
        connection.execute(command)
        connection.execute(
            "insert into icecore.idempotency (project_id, actor, key, command_id, request_hash, operation, status, position, recorded_at) "
            "select gen_random_uuid(), 'a', gen_random_uuid(), command_id, 'h', 'createTable', 409, 0, recorded_at from icecore.commands"
        )
    await apply_migrations(empty_database)
    assert [] == (await verify(empty_database)).differences


# Location, path properties, and the places that migration 0013 makes them hold; in the order of their creation.
OLDER_OBJECTS: list[tuple[str, dict[str, str], list[str]]] = [
    ("s3://b/a", {"write.data.path": "s3a://b/shared/", "write.metadata.path": "s3://b/a/metadata"}, ["s3|s3://b/shared/"]),
    ("s3://b/c", {"write.data.path": "s3://b/shared/below", "write.metadata.path": "s3n://b/meta"}, ["s3|s3://b/meta/"]),
    ("s3://b/d", {"write.data.path": "s3://b/a", "write.object-storage.path": "s3://b"}, []),
    ("s3://b/e", {"write.folder-storage.path": "s3://b/f g/ü", "write.data.path": "s3://b/e"}, ["s3|s3://b/f g/ü/"]),
    ("file:///w/a", {"write.data.path": "file:/w/x", "write.metadata.path": "file:///w/y"}, ["file|file:///w/x/", "file|file:///w/y/"]),
    ("file:///w/b", {"write.data.path": "file:///w//z", "write.metadata.path": "file:///w/../z"}, []),
    ("file:///w/c", {"write.data.path": "file:///w/nul", "note": "\x00"}, []),
    ("abfs://f@a.dfs.x.net/t", {"write.data.path": "wasbs://f@a.blob.x.net/x"}, ["abfs|abfs://f@a.dfs.x.net/x/"]),
    ("gs://b/t", {"note": '"write.data.path"'}, []),
]


@pytest.mark.parametrize("kind", ["table", "view"])
async def test_path_properties_of_an_older_schema_claim_their_places(empty_database: str, kind: str) -> None:
    """Where they are free, the older object first; what cannot be claimed is left. The log says so, and gives the rows and claims."""
    await apply_migrations(empty_database, [carried for carried in load_migrations() if carried.number < 13])
    committer = Committer(empty_database)
    committer.start()
    (location, properties, _), *_ = OLDER_OBJECTS
    gone = await begin(committer, kind, f"{location}-gone", properties)
    drop = Submission(context("drop"))
    drop.add(gone.id, WAREHOUSE_ID, gone, [TableDropped(False) if kind == "table" else ViewDropped()])
    assert "appended" == (await committer.submit(drop)).outcome
    expected = set()
    for location, properties, claimed in OLDER_OBJECTS:
        state = await begin(committer, kind, location, properties)
        expected |= {(state.id, key) for key in (*state.location_keys, *claimed)}
    await committer.close()
    await apply_migrations(empty_database)
    with psycopg.connect(empty_database) as connection:
        assert expected == set(connection.execute("select owner, key from icecore.location_claims").fetchall())
        added = connection.execute("select topic from icecore.events where actor = 'icecore-migrate'").fetchall()
    assert [(f"{kind}.committed.v1",)] * sum(len(claimed) for *_, claimed in OLDER_OBJECTS) == added
    assert [] == (await verify(empty_database)).differences


async def begin(committer: Committer, kind: str, location: str, properties: dict[str, str]) -> TableState | ViewState:
    """A table or view whose creation claims its location alone, as all did before migration 0013."""
    object_id = uuid7()
    name, key = str(object_id), f"{location.partition(':')[0]}|{location}/"
    given: Any = {"location": location, "schema": SCHEMA, "properties": properties, "now_ms": 1}
    if kind == "view":
        metadata = new_view_metadata(view_uuid=name, view_version=view_version("select 1"), **given)
        event: Event = ViewCreated(WAREHOUSE_ID, name, name, key, f"{location}/metadata/0.json", metadata)
    else:
        metadata = new_table_metadata(table_uuid=name, partition_spec=None, write_order=None, **given)
        event = TableCreated(WAREHOUSE_ID, name, name, key, f"{location}/metadata/0.json", metadata, staged=False)
    submission = Submission(context("create"))
    state = submission.add(object_id, WAREHOUSE_ID, None, [event])
    assert "appended" == (await committer.submit(submission)).outcome
    assert isinstance(state, TableState | ViewState)
    return state


async def test_a_second_run_changes_nothing(database: str) -> None:
    """The runner is idempotent: neither its own rows nor any object are touched."""
    rows = "select m::text, m.xmin::text from icecore.migrations m order by 1"
    objects = "select c.oid, c.relname, c.xmin::text from pg_class c where c.relnamespace = 'icecore'::regnamespace order by 1"
    functions = "select p.oid, p.proname, p.xmin::text from pg_proc p where p.pronamespace = 'icecore'::regnamespace order by 1"
    with psycopg.connect(database, autocommit=True) as connection:
        before = [connection.execute(what).fetchall() for what in (rows, objects, functions)]
        assert [] == await apply_migrations(database)
        assert before == [connection.execute(what).fetchall() for what in (rows, objects, functions)]
    assert all(before)


async def test_everything_lands_in_the_schema_icecore(database: str) -> None:
    """Nothing of ours in `public` or in a schema of another name: the database may be shared."""
    # What is made after initdb has a higher id (FirstNormalObjectId).
    made = " UNION ALL ".join(
        f"SELECT '{name}', {column}, {schema}::regnamespace::text FROM {name} WHERE oid >= 16384"
        for name, column, schema in (
            ("pg_class", "relname", "relnamespace"),
            ("pg_proc", "proname", "pronamespace"),
            ("pg_type", "typname", "typnamespace"),
            ("pg_namespace", "nspname", "oid"),
        )
    )
    with psycopg.connect(database) as connection:
        found = connection.execute(made).fetchall()
    assert {"pg_class", "pg_proc", "pg_type", "pg_namespace"} == {kind for kind, *_ in found}
    # What Postgres itself keeps beside a table.
    assert [] == [each for each in found if each[2] not in ("icecore", "pg_toast")]


async def test_names_without_a_schema_land_in_icecore(empty_database: str) -> None:
    """The search path of a migration is the schema icecore."""
    await apply_migrations(empty_database, [migration(1, "CREATE TABLE plain (x integer)")])
    assert ["migrations", "plain"] == tables(empty_database)


def test_migrations_are_never_changed() -> None:
    """Databases out there were made by these texts and refuse any other: what changes, changes by a migration of its own."""
    assert CHECKSUMS == {str(carried): carried.checksum for carried in load_migrations()}


async def test_a_migration_that_fails_leaves_nothing_and_keeps_what_came_before(empty_database: str) -> None:
    """Each migration is one transaction."""
    carried = [migration(1, "CREATE TABLE one (x integer)"), migration(2, "CREATE TABLE two (x integer); SELECT no_such_function()")]
    with pytest.raises(MigrationError, match=r"0002_step_2 failed.*no_such_function"):
        await apply_migrations(empty_database, carried)
    assert ["migrations", "one"] == tables(empty_database)
    mended = [carried[0], migration(2, "CREATE TABLE two (x integer)")]
    assert ["0002_step_2"] == await apply_migrations(empty_database, mended)


async def test_a_changed_migration_is_refused(empty_database: str) -> None:
    """A checksum other than the recorded one means that code and database disagree about the past."""
    await apply_migrations(empty_database, [migration(1, "CREATE TABLE one (x integer)")])
    with pytest.raises(MigrationError, match="an applied migration was changed"):
        await apply_migrations(empty_database, [migration(1, "CREATE TABLE one (y integer)", checksum="other")])


async def test_a_newer_database_is_refused(empty_database: str) -> None:
    """An old Icecore must not write into a schema it does not know."""
    carried = [migration(1, "CREATE TABLE one (x integer)"), migration(2, "CREATE TABLE two (x integer)")]
    await apply_migrations(empty_database, carried)
    with pytest.raises(MigrationError, match="database is newer than this Icecore: it has migration 0002_step_2"):
        await apply_migrations(empty_database, carried[:1])


async def test_a_migration_missing_in_between_is_refused(empty_database: str) -> None:
    """Order is part of the meaning of a migration."""
    one, two, three = (migration(number, "SELECT 1") for number in (1, 2, 3))
    await apply_migrations(empty_database, [one, three])
    with pytest.raises(MigrationError, match="misses migration 0002_step_2"):
        await apply_migrations(empty_database, [one, two, three])


async def test_five_processes_at_once_apply_each_migration_once(empty_database: str) -> None:
    """Every worker of every machine may start at the same moment."""
    program = "import asyncio, sys; from migrations.apply import apply_migrations; print(asyncio.run(apply_migrations(sys.argv[1])))"
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, empty_database, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE
        )
        for _ in range(5)
    ]
    answers = [(await process.communicate())[0].decode() for process in processes]
    assert [0] * 5 == [process.returncode for process in processes]
    for name in map(str, load_migrations()):
        assert 1 == sum(name in answer for answer in answers), f"{name} was applied by {answers}"


async def test_a_durable_server_is_accepted(database: str) -> None:
    """The servers of these tests run as production's do."""
    await check_server(database)


@pytest.mark.parametrize("value", ["local", "remote_write", "on", "remote_apply"])
async def test_synchronous_commit_may_be_anything_that_waits_for_the_disk(database: str, value: str) -> None:
    """Only `off` answers before the log is flushed."""
    await check_server(psycopg.conninfo.make_conninfo(database, options=f"-c synchronous_commit={value}"))


async def test_synchronous_commit_off_is_refused_even_if_only_for_this_role(database: str) -> None:
    """The setting can come from the role, the database or the DSN: what counts is what our connections see."""
    weak = psycopg.conninfo.make_conninfo(database, options="-c synchronous_commit=off")
    with pytest.raises(UnfitServerError, match="can lose commits it has acknowledged: synchronous_commit is off"):
        await check_server(weak)
    await check_server(weak, unsafe_durability=True)
    name = Identifier(str(psycopg.conninfo.conninfo_to_dict(database)["dbname"]))
    alter, of_role = SQL("alter {} set synchronous_commit = off"), SQL("role current_user in database {}").format(name)
    for whose in (of_role, SQL("database {}").format(name)):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(alter.format(whose))
            with pytest.raises(UnfitServerError, match="synchronous_commit is off"):
                await check_server(database)
            connection.execute(SQL("alter {} reset synchronous_commit").format(whose))
    await check_server(database)


async def test_a_higher_isolation_level_is_refused_where_our_options_do_not_arrive(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler may drop them; then what the role or the database asks for holds."""
    name = Identifier(str(psycopg.conninfo.conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("alter database {} set default_transaction_isolation = 'repeatable read'").format(name))
    await check_server(database)
    monkeypatch.setattr(connection_module, "OPTIONS", "")
    with pytest.raises(UnfitServerError, match="default_transaction_isolation is repeatable read"):
        await check_server(database, unsafe_durability=True)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_a_server_that_does_not_flush_is_refused(admin_dsn: str, setting: str) -> None:
    """Both settings are the server's own and can change by a reload."""
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            await until_setting(admin_dsn, setting, "off")
            with pytest.raises(UnfitServerError, match=f"{setting} is off"):
                await check_server(admin_dsn)
        finally:
            connection.execute(f"ALTER SYSTEM RESET {setting}")
            connection.execute("SELECT pg_reload_conf()")
            await until_setting(admin_dsn, setting, "on")


async def until_setting(dsn: str, setting: str, value: str) -> None:
    """Waits for a reload to arrive; pg_reload_conf only asks for one."""
    for _ in range(200):
        with psycopg.connect(dsn) as connection:
            if connection.execute(f"SHOW {setting}").fetchone() == (value,):
                return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{setting} did not become {value}")
