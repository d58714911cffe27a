"""The migrations runner and the server check, on a real Postgres."""

import asyncio
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from icecore.server_check import UnfitServerError, check_server
from migrations.apply import Migration, MigrationError, apply_migrations, load_migrations, pending_migrations
from projections.verify import verify

CHECKSUMS = {
    "0001_log": "00260ee8d5dbe23a1619c5e98086b791ddad8cf8854f647881e667458db6bcef",
    "0002_secrets": "ec0aaa3007308da8d161c39932d7ca7b34db4f7d9be8fdb303392f82a4c06086",
    "0003_read_models": "fb5f5725a5198eea22e42e54f9e2f50734450ae537cb67ac10f1ab2210329184",
    "0010_sinks": "99037d9bea16380da653895ba83d2b9f36055b31001b624a005b53e683487216",
    "0011_proposals": "c79f2407f2a7ff7a70edd7e1a22cae2a6c6fcb52da88da8dc489f558c9c1ca32",
    "0012_append_loops": "b973a3c215a98855ce68b0b40d8475353603565c3c9a350279e45278126f21a8",
    "0013_functions": "d0568a5462b39ac22c777d2c874269d2068bd18ef7b93c1bf608a90eaa849df5",
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
