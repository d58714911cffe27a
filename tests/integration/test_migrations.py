"""Migrations and the server check, on a real Postgres."""

import asyncio
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from icecore.database import connection as connection_module
from icecore.database.advisory_locks import AdvisoryLock, lock_transaction
from icecore.database.connection import connect
from icecore.migrations import apply
from icecore.migrations.apply import (
    Migration,
    MigrationError,
    apply_migrations,
    checksum,
    load_functions,
    load_migrations,
    pending_migrations,
)
from icecore.server_check import UnfitServerError, check_server

CHECKSUMS = {
    "0001_baseline": "087b9f98076563e3d565058835bf53d72f92b11128493999eb67bb0cf0b0d93e",
    "0002_statistics": "0b8c71a848953e614f5fdf300e904de7cc76b2aceb5a2d95781df5ba9f47e9c9",
    "0003_warehouse_config": "ff0111fed6ab64f4bae064ca7b6f8ea194507e294f59cd94afc4c88d3aa460ec",
    "0004_warehouse_changes": "3b767089636b0a1a335eadc4d0ac38ba033a987b2237e164191b0430ba557dfc",
    "0006_protection": "e010d3e615873fe6111e54c158a5af7fe5cc46d3adec27a4f016354f9fb4c0ef",
    "0007_projects": "bde178e010fd2b8378a3675909b45d3dbdc1d62269fcdd4f2047003d0125e1a0",
    "0008_warehouse_storage": "32d0a60dbd5dac3fed464654840c224ca7516eb63526b07abb8ef33d80adf771",
    "0009_append_locked_tables": "9dd9812fb510bab95add20a09796beef2e202342b426fb78acf7bd7879e8881d",
    "0010_soft_deletion": "bc03e874a67178dc977110cfd99baa5ff517a9def122bc7d951be301821a243f",
    "0011_namespace_trees": "9328978f01d669706dc034414a8777f62e47ec83f783f43ca30f84bba23e966e",
    "0012_namespace_move": "f1620547a587f0d70dd0b4b6ebc0f324fd0269a9da6d5a79f21f387498ad3ae4",
    "0013_tasks": "c302599af04ea10d56147b4af1d77615209fc5ca355ce735bd521536550cee0f",
    "0014_search": "8ec32ea7d721d6b2cace62e14a6501dd560360f41b1066fe8ab8c71806ae6c31",
    "0015_endpoint_statistics": "9edf9ba4e96730db33c43c75231c2499f355d3ae9a916b87dffdc430097f2eed",
    "0016_metrics_report_positions": "d28e4a88f643aaf562acade5bfdd1e06d9199fc0096b76d42637a489118736f0",
    "0017_append_names": "08bc92eaf8dd2a30cb5df95cf74c071941f14aeb385ee4bee8062818767e596e",
    "0018_unfinished_purges": "9910517403d5aeb65f1c69d845c70b0cbfe7d8ba158a704d2753adb472e40be8",
    "0019_soft_deleted_in_trees": "049f57a13b6a77d2cc3a166fd9c9077bbc1ec07b2ef412b1517f635dc1d2f9fe",
    "0020_append_commands": "d071c532e52788fb29eff7bb5c30ba02d15886f7c786618dafbbdc003872b598",
}
FUNCTIONS = ("0020_append_commands", "07d53770118aa83017c3f067f7a3622d6fcfce514337d77001fb2010c1a02f76")
"""The newest migration, and the checksum of its functions."""


def migration(number: int, text: str, checksum: str = "c") -> Migration:
    return Migration(number, f"step_{number}", checksum, text)


def answering(answer: int, returns: str = "integer") -> str:
    """A function with this name. The result type of a function cannot be replaced."""
    return f"create or replace function icecore.answer() returns {returns} language sql as 'select {answer}'"


def answer(dsn: str) -> object:
    with psycopg.connect(dsn) as connection:
        return connection.execute("select icecore.answer()").fetchone()


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'icecore' ORDER BY 1").fetchall()
    return [name for (name,) in found]


async def test_an_empty_database_gets_every_migration_in_order(empty_database: str) -> None:
    """The result is what was applied, and equals the pending migrations."""
    expected = [str(migration) for migration in load_migrations()]
    assert expected == await pending_migrations(empty_database)
    assert sorted(CHECKSUMS) == expected
    assert expected == await apply_migrations(empty_database)
    with psycopg.connect(empty_database) as connection:
        applied = connection.execute("select number from icecore.migrations order by applied_at, number").fetchall()
    assert [int(name[:4]) for name in expected] == [number for (number,) in applied]
    assert [] == await pending_migrations(empty_database)


async def test_a_second_run_changes_nothing(database: str) -> None:
    """Neither its own rows nor any object are changed."""
    rows = "select m::text, m.xmin::text from icecore.migrations m order by 1"
    objects = "select c.oid, c.relname, c.xmin::text from pg_class c where c.relnamespace = 'icecore'::regnamespace order by 1"
    functions = "select p.oid, p.proname, p.xmin::text from pg_proc p where p.pronamespace = 'icecore'::regnamespace order by 1"
    with psycopg.connect(database, autocommit=True) as connection:
        before = [connection.execute(what).fetchall() for what in (rows, objects, functions)]
        assert [] == await apply_migrations(database)
        assert before == [connection.execute(what).fetchall() for what in (rows, objects, functions)]
    assert all(before)


async def test_everything_lands_in_the_schema_icecore(database: str) -> None:
    """Nothing in `public` or another schema, because the database may be shared."""
    # Objects created after initdb have higher ids (FirstNormalObjectId).
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
    # What Postgres itself creates for a table.
    assert [] == [each for each in found if each[2] not in ("icecore", "pg_toast")]


async def test_names_without_a_schema_land_in_icecore(empty_database: str) -> None:
    """The search path of a migration is the schema icecore."""
    await apply_migrations(empty_database, [migration(1, "CREATE TABLE plain (x integer)")], "")
    assert ["migrations", "plain"] == tables(empty_database)


def test_migrations_are_never_changed() -> None:
    """Existing databases were created by these texts and refuse others. Every change, also of functions, needs a new migration.

    Until the first release, these checksums may follow the texts.
    """
    assert CHECKSUMS == {str(carried): carried.checksum for carried in load_migrations()}
    assert (str(load_migrations()[-1]), checksum(load_functions())) == FUNCTIONS


async def test_a_migration_that_fails_leaves_nothing_and_keeps_what_came_before(empty_database: str) -> None:
    """All pending migrations and the functions are one transaction."""
    carried = [migration(1, "CREATE TABLE one (x integer)"), migration(2, "CREATE TABLE two (x integer); SELECT no_such_function()")]
    await apply_migrations(empty_database, carried[:1], answering(1))
    with pytest.raises(MigrationError, match=r"0002_step_2 failed.*no_such_function"):
        await apply_migrations(empty_database, carried, answering(2))
    mended = [carried[0], migration(2, "CREATE TABLE two (x integer)")]
    with pytest.raises(MigrationError, match=r"functions failed.*no_such_function"):
        await apply_migrations(empty_database, mended, f"{answering(2)}; select no_such_function()")
    assert (["migrations", "one"], (1,)) == (tables(empty_database), answer(empty_database))
    assert ["0002_step_2"] == await apply_migrations(empty_database, mended, answering(2))
    assert (2,) == answer(empty_database)


async def test_functions_come_with_a_migration_and_older_ones_never_come_back(empty_database: str) -> None:
    """A new migration is needed to change functions. An older program, or one with other functions under the same number, is refused."""
    one, two = migration(1, "SELECT 1"), migration(2, "-- functions alone")
    await apply_migrations(empty_database, [one], answering(1))
    with pytest.raises(MigrationError, match="a change of functions needs a migration"):
        await apply_migrations(empty_database, [one], answering(2))
    assert (1,) == answer(empty_database)
    await apply_migrations(empty_database, [one, two], answering(2))
    with pytest.raises(MigrationError, match="database is newer than this Icecore: it has migration 0002_step_2"):
        await apply_migrations(empty_database, [one], answering(1))
    assert (2,) == answer(empty_database)
    assert [] == await apply_migrations(empty_database, [one, two], answering(2))


async def test_what_a_function_returns_changes_where_its_file_drops_it_first(empty_database: str) -> None:
    """Only the owner may execute the new one until the serving role is granted it."""
    one, two = migration(1, "SELECT 1"), migration(2, "-- functions alone")
    await apply_migrations(empty_database, [one], answering(1))
    with pytest.raises(MigrationError, match="cannot change return type"):
        await apply_migrations(empty_database, [one, two], answering(2, "bigint"))
    await apply_migrations(empty_database, [one, two], f"drop function if exists icecore.answer(); {answering(2, 'bigint')}")
    with psycopg.connect(empty_database) as connection:
        granted = "select has_function_privilege('pg_monitor', 'icecore.answer()', 'execute'), pg_typeof(icecore.answer())::text"
        assert (False, "bigint") == connection.execute(granted).fetchone()


async def test_an_append_that_is_under_way_is_waited_for(empty_database: str) -> None:
    """An append holds this lock while it waits for tables, which a migration locks. In the other order they would deadlock."""
    one, two = migration(1, "create table one (x integer)"), migration(2, "alter table one add column y integer")
    await apply_migrations(empty_database, [one], "")
    waits = (
        "select exists (select from pg_stat_activity where datname = current_database() and application_name = 'icecore-migrate' "
        "and wait_event_type = 'Lock' and wait_event = 'advisory')"
    )
    async with await connect(empty_database) as looking, await connect(empty_database) as appending, appending.transaction():
        await lock_transaction(appending, AdvisoryLock.APPEND)
        applying = asyncio.create_task(apply_migrations(empty_database, [one, two], ""))
        async with asyncio.timeout(30):
            while (True,) != await (await looking.execute(waits)).fetchone():
                assert not applying.done()
                await asyncio.sleep(0.02)
        await appending.execute("insert into icecore.one values (1)")
    assert ["0002_step_2"] == await applying


def test_line_ends_of_the_checkout_are_none_of_a_migration_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that was created from texts with carriage returns is accepted."""
    monkeypatch.setattr(apply, "files", lambda _: tmp_path)
    (tmp_path / "functions").mkdir()
    for file in ("0001_one.sql", "functions/answer.sql"):
        (tmp_path / file).write_bytes(b"select 1;\r\nselect 2\r\n")
    text = "select 1;\nselect 2\n"
    assert ([text], [checksum(text)]) == ([each.text for each in load_migrations()], [each.checksum for each in load_migrations()])
    assert text == load_functions()


async def test_a_database_of_a_build_before_the_first_release_is_refused(empty_database: str) -> None:
    """Its schema is not the baseline's, and no migration leads to it."""
    with psycopg.connect(empty_database) as connection:
        connection.execute("create schema icecore")
        connection.execute("create table icecore.migrations (number integer primary key, name text, checksum text)")
        connection.execute("insert into icecore.migrations values (1, 'log', '0026'), (13, 'functions', '1515')")
    for run in (apply_migrations, pending_migrations):
        with pytest.raises(
            MigrationError,
            match=r"build from before the first release.*start with a new data folder .*see 'Upgrade' in the documentation",
        ):
            await run(empty_database)


async def test_a_changed_migration_is_refused(empty_database: str) -> None:
    """A different checksum means that program and database disagree."""
    await apply_migrations(empty_database, [migration(1, "CREATE TABLE one (x integer)")], "")
    with pytest.raises(MigrationError, match=r"applied migration was changed.*register its tables.*: see 'Upgrade' in the documentation"):
        await apply_migrations(empty_database, [migration(1, "CREATE TABLE one (y integer)", checksum="other")], "")


async def test_a_newer_database_is_refused(empty_database: str) -> None:
    """An older Icecore must not write to a schema it does not know."""
    carried = [migration(1, "CREATE TABLE one (x integer)"), migration(2, "CREATE TABLE two (x integer)")]
    await apply_migrations(empty_database, carried, "")
    with pytest.raises(MigrationError, match="database is newer than this Icecore: it has migration 0002_step_2"):
        await apply_migrations(empty_database, carried[:1], "")


async def test_a_migration_missing_in_between_is_refused(empty_database: str) -> None:
    """The order of migrations matters."""
    one, two, three = (migration(number, "SELECT 1") for number in (1, 2, 3))
    await apply_migrations(empty_database, [one, three], "")
    with pytest.raises(MigrationError, match="lacks migration 0002_step_2"):
        await apply_migrations(empty_database, [one, two, three], "")


async def test_five_processes_at_once_apply_each_migration_once(empty_database: str) -> None:
    """Any number of processes may start concurrently."""
    program = (
        "import asyncio, sys; from icecore.migrations.apply import apply_migrations; print(asyncio.run(apply_migrations(sys.argv[1])))"
    )
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


async def test_limits_for_requests_do_not_hold_for_a_migration(empty_database: str) -> None:
    """A migration takes as long as the tables need, and waits for another process's migration."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for limit in ("statement_timeout", "lock_timeout"):
            connection.execute(SQL("alter database {} set {} = '300ms'").format(Identifier(connection.info.dbname), SQL(limit)))
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (AdvisoryLock.MIGRATIONS,))
            applying = asyncio.create_task(apply_migrations(empty_database, [migration(1, "select pg_sleep(0.5)")], ""))
            await asyncio.sleep(1)
    assert ["0001_step_1"] == await applying


async def test_a_durable_server_is_accepted(database: str) -> None:
    """The tests' servers have production's settings."""
    await check_server(database)


@pytest.mark.parametrize("value", ["local", "remote_write", "on", "remote_apply"])
async def test_synchronous_commit_may_be_anything_that_waits_for_the_disk(database: str, value: str) -> None:
    """Only `off` confirms a commit before the WAL is flushed."""
    await check_server(psycopg.conninfo.make_conninfo(database, options=f"-c synchronous_commit={value}"))


async def test_synchronous_commit_off_is_refused_even_if_only_for_this_role(database: str) -> None:
    """The role, the database or the DSN may set it. The setting of our connections counts."""
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
    """A pooler may drop them. Then the setting of the role or the database counts."""
    name = Identifier(str(psycopg.conninfo.conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("alter database {} set default_transaction_isolation = 'repeatable read'").format(name))
    await check_server(database)
    monkeypatch.setattr(connection_module, "OPTIONS", "")
    with pytest.raises(UnfitServerError, match="default_transaction_isolation is repeatable read"):
        await check_server(database, unsafe_durability=True)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_a_server_that_does_not_flush_is_refused(admin_dsn: str, setting: str) -> None:
    """Both settings belong to the server and can change with a reload."""
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
    """Waits for a reload to take effect."""
    for _ in range(200):
        with psycopg.connect(dsn) as connection:
            if connection.execute(f"SHOW {setting}").fetchone() == (value,):
                return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{setting} did not become {value}")


async def test_metrics_reports_of_before_get_their_type(empty_database: str) -> None:
    """It is read from reports that are JSON, but in any encoding."""
    await apply_migrations(empty_database, [each for each in load_migrations() if each.number < 16])
    reports = [b'{"report-type":"scan-report"}', b'{"filter":"\xc3\xa4", "report-type" : "commit-report"}', b'{"report-type":"x"}', b"\xff"]
    insert = "insert into icecore.metrics_reports values (gen_random_uuid(), gen_random_uuid(), now(), %s)"
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for report in reports:
            connection.execute(insert, [report])
        await apply_migrations(empty_database)
        found = connection.execute("select report_type, warehouse_id from icecore.metrics_reports order by position").fetchall()
    assert [("scan-report", None), ("commit-report", None), ("other", None), ("other", None)] == found
