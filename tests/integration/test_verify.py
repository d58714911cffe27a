"""Verification: no difference for a correct database, and every change of any row is reported."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from uuid_utils.compat import uuid7

from icecore.access.request_context import RequestContext
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.compose import Application
from icecore.database.connection import connect
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable
from icecore.domain.documents import Json
from icecore.domain.events import topics
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.projections import verify as verifying
from icecore.projections.rebuild import rebuild
from icecore.projections.stream_ranges import ALL_STREAMS
from icecore.projections.verify import verify as verify_all
from icecore.projections.verify_report import Difference, VerifyReport
from icecore.projections.verify_schema import carried_functions, found_schema, recorded_schema
from tests.fixtures import command_runs
from tests.fixtures.asynchronous import caught_up, fold_asynchronous, projecting
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import EVERY_KIND, SCHEMA, CommandRun, Step

# Tables that are not, or only partly, folded from the log (idempotency has its own test).
NOT_FOLDED = {
    "migrations", "server", "secrets", "metrics_reports", "idempotency", "sinks", "sink_skips", "sink_replays", "preloaded_parts",
    "old_metadata_files", "task_runs", "endpoint_statistics",
    "statistics_tracking", "search_tracking",
}  # fmt: skip

# How to change a value of each type.
CHANGES = {
    "uuid": "gen_random_uuid()",
    "int8": "coalesce({column} + 1000, 1)",
    "int4": "coalesce({column} + 1000, 1)",
    "int2": "coalesce({column} + 1000, 1)::smallint",
    "text": "coalesce({column}, '') || 'x'",
    "_int8": "array_append({column}, 1)",
    "_text": "array_append({column}, 'x')",
    "bytea": "coalesce({column}, '') || '\\x20'",
    "bool": "not coalesce({column}, false)",
    "int8multirange": "{column} + '{{[900000,900001)}}'",
    "timestamptz": "{column} + interval '1 microsecond'",
}


# A role that may execute `append` is a serving role; `append` executes the others.
FUNCTIONS_NOT_SERVED = ", ".join(sorted(f"function {name}" for name in {key.split()[1] for key in carried_functions()} - {"append"}))


def in_this_database(setting: str) -> str:
    """The statement that sets the setting for every session of the database."""
    return f"do $$ begin execute format('alter database %I set {setting}', current_database()); end $$"


@pytest.fixture
async def dsn(catalog: Application) -> str:
    """A database whose log has every kind of event; nothing is appended later."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    return catalog.dsn


@pytest.fixture
def meddler(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser who bypasses triggers and checks."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        checks = connection.execute(
            "select conrelid::regclass::text, conname from pg_constraint where contype = 'c' and connamespace = 'icecore'::regnamespace"
        ).fetchall()
        for table, name in checks:
            connection.execute(sql.SQL("alter table {} drop constraint {}").format(sql.SQL(table), sql.Identifier(name)))
        yield connection


async def verify(dsn: str) -> VerifyReport:
    """Without the differences due to the checks that the test dropped."""
    report = await verify_all(dsn)
    kept = [difference for difference in report.differences if difference.table != "pg_constraint"]
    report.difference_count -= len(report.differences) - len(kept)
    report.differences = kept
    return report


def folded_tables(connection: psycopg.Connection[Any]) -> list[str]:
    """The tables folded from the log; a new table is included by default."""
    found = connection.execute("select tablename from pg_tables where schemaname = 'icecore' order by 1").fetchall()
    return [name for (name,) in found if name not in NOT_FOLDED]


def columns(connection: psycopg.Connection[Any], table: str) -> list[tuple[str, str, bool]]:
    """(name, type, whether it is part of the primary key)"""
    return connection.execute(
        """
        select c.column_name, c.udt_name, exists (
          select from information_schema.key_column_usage k
          where k.table_schema = c.table_schema and k.table_name = c.table_name and k.column_name = c.column_name)
        from information_schema.columns c where c.table_schema = 'icecore' and c.table_name = %s order by c.ordinal_position
        """,
        (table,),
    ).fetchall()


def some_row(table: str) -> str:
    """The row to change: in the middle of a log, a command with events."""
    return {"events": "where notification_id = 5", "commands": "where first_position = 5"}.get(table, "")


def named(differences: list[Difference], table: str, column: str, *, in_key: bool) -> bool:
    """Whether a difference is about the change: for a key column, a missing or surplus row; for an event, its hash."""
    if column == "generation":
        return any(difference.column is None for difference in differences)
    for difference in differences:
        if difference.table == table:
            by_row = difference.column is None and (in_key or table in ("claims", "location_claims", "commands"))
            by_hash = table == "events" and (difference.column == "hash" or column == "notification_id")
            if difference.column == column or by_row or by_hash:
                return True
    return False


async def test_an_honest_log_of_every_kind_of_event_has_no_difference(dsn: str) -> None:
    """The log contains every topic. There is no difference before and after a rebuild."""
    with psycopg.connect(dsn) as connection:
        seen = {topic for (topic,) in connection.execute("select distinct topic from icecore.events")}
    assert set(topics()) == seen
    before = await verify(dsn)
    assert [] == before.differences
    await rebuild(dsn)
    after = await verify(dsn)
    assert [] == after.differences
    assert (before.head, before.head_hash, before.rows, before.claims) == (after.head, after.head_hash, after.rows, after.claims)
    assert before.generation + 1 == after.generation
    assert str(before).startswith("no difference: ")


async def test_every_column_of_every_table_is_compared(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """A change of any single value is reported. The columns are read from the database, so that new ones are covered."""
    await fold_asynchronous(dsn)
    unnoticed = []
    for table in folded_tables(meddler):
        for column, kind, in_key in columns(meddler, table):
            if (table, column) == ("read_models", "one"):
                continue  # It only prevents a second row.
            name, where = sql.Identifier(column), sql.SQL(some_row(table))  # type: ignore[arg-type]
            change = sql.SQL(CHANGES[kind]).format(column=name)  # type: ignore[arg-type]
            relation = sql.Identifier("icecore", table)
            row = meddler.execute(sql.SQL("select ctid::text, {} from {} {} limit 1").format(name, relation, where)).fetchone()
            assert row is not None, f"the run leaves no row in {table}"
            update = sql.SQL("update {} set {} = {} where ctid = %s::tid returning ctid::text")
            changed = meddler.execute(update.format(relation, name, change), (row[0],)).fetchone()
            report = await verify(dsn)
            if not named(report.differences, table, column, in_key=in_key):
                unnoticed.append(f"{table}.{column}: {report}")
            assert changed is not None
            back = sql.SQL("%s::{}").format(sql.SQL(kind))  # type: ignore[arg-type]
            meddler.execute(update.format(relation, name, back), (row[1], changed[0]))
    assert [] == unnoticed
    assert [] == (await verify(dsn)).differences


@pytest.mark.parametrize("value", ["infinity", "0044-03-15 BC"])
async def test_a_time_that_python_has_not_is_a_difference_and_no_crash(dsn: str, meddler: psycopg.Connection[Any], value: str) -> None:
    """Postgres has times that Python cannot represent. They are reported, and everything else is still compared."""
    await fold_asynchronous(dsn)
    for table in folded_tables(meddler):
        for column in [name for name, kind, _ in columns(meddler, table) if kind == "timestamptz"]:
            name, relation, where = sql.Identifier(column), sql.Identifier("icecore", table), sql.SQL(some_row(table))  # type: ignore[arg-type]
            meddler.execute(
                sql.SQL("create temp table kept as select ctid as place, {} as at from {} {} limit 1").format(name, relation, where)
            )
            update = sql.SQL("update {} t set {} = {} from kept where t.ctid = kept.place returning t.ctid")
            changed = meddler.execute(update.format(relation, name, sql.Literal(value))).fetchone()
            report = await verify(dsn)
            assert any(d.table == table and (d.column in (column, "hash") or d.column is None) for d in report.differences), (
                f"{table}.{column}"
            )
            assert changed is not None
            meddler.execute("update kept set place = %s::tid", changed)
            meddler.execute(update.format(relation, name, sql.SQL("kept.at")))
            meddler.execute("drop table kept")
    assert [] == (await verify(dsn)).differences


def strangers(connection: psycopg.Connection[Any]) -> dict[str, UUID]:
    """Unknown stream ids, by their place in the order of comparison."""
    found = connection.execute("select distinct originator_id from icecore.events order by 1").fetchall()
    ids = [stream_id for (stream_id,) in found]
    between = UUID(int=(ids[0].int + ids[1].int) // 2)
    assert ids[0] < between < ids[1]
    return {"below all": UUID(int=1), "between two": between, "above all": UUID(int=2**128 - 1)}


async def test_a_row_that_is_gone_or_was_added_is_named(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """In every table folded from the log, for a stream that sorts before, between and after all others."""
    await fold_asynchronous(dsn)
    unnoticed = []
    for table in folded_tables(meddler):
        if table == "read_models":
            continue
        relation = sql.Identifier("icecore", table)
        with_where = sql.SQL(some_row(table))  # type: ignore[arg-type]
        meddler.execute(sql.SQL("create temp table kept as select * from {} {} limit 1").format(relation, with_where))
        uuids = [sql.Identifier(name) for name, kind, in_key in columns(meddler, table) if kind == "uuid"]
        condition = sql.SQL("where to_jsonb(t) = (select to_jsonb(k) from kept k)")
        deleted = meddler.execute(
            sql.SQL("delete from {0} where ctid in (select t.ctid from {0} t {1})").format(relation, condition)
        ).rowcount
        assert deleted == 1
        report = await verify(dsn)
        if table not in {difference.table for difference in report.differences}:
            unnoticed.append(f"{table}: a row is gone: {report}")
        meddler.execute(sql.SQL("insert into {} select * from kept").format(relation))
        fresh = (
            sql.SQL(", ").join(sql.SQL("{} = gen_random_uuid()").format(name) for name in uuids) if uuids else sql.SQL("term = term + 1")
        )
        meddler.execute(sql.SQL("update kept set {}").format(fresh))
        if table == "events":
            meddler.execute("update kept set notification_id = (select max(notification_id) + 1 from icecore.events)")
        if table == "location_claims":
            meddler.execute("update kept set key = key || 'x/'")
        for place, stream_id in strangers(meddler).items() if uuids else [("anywhere", None)]:
            if stream_id is not None:
                owner = sql.Identifier("owner") if table == "claims" else uuids[0]
                meddler.execute(sql.SQL("update kept set {} = %s").format(owner), (stream_id,))
            meddler.execute(sql.SQL("insert into {} select * from kept").format(relation))
            report = await verify(dsn)
            if not any(d.table == table and (d.column is None or table == "events") for d in report.differences):
                unnoticed.append(f"{table}: a row was added {place}: {report}")
            meddler.execute(sql.SQL("delete from {0} where ctid in (select t.ctid from {0} t {1})").format(relation, condition))
        meddler.execute("drop table kept")
    assert [] == unnoticed
    assert [] == (await verify(dsn)).differences


async def test_the_last_event_cut_off_is_named_by_its_command(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """The chain alone cannot detect a missing end; the row of the command can."""
    meddler.execute("delete from icecore.events where notification_id = (select max(notification_id) from icecore.events)")
    report = await verify(dsn)
    assert {"commands", "tables", "namespaces"} & {difference.table for difference in report.differences}
    assert "commands" in {difference.table for difference in report.differences}


async def test_a_hole_in_the_log_is_named_by_position(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """Positions have no gaps."""
    meddler.execute("delete from icecore.events where notification_id = 5")
    report = await verify(dsn)
    assert Difference("events", "position 6", "notification_id", 5, 6) in report.differences


async def test_a_time_that_goes_back_is_named_although_every_hash_is_right(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """Somebody who rewrites the log can compute its hashes. Times must not decrease."""
    meddler.execute("update icecore.events set recorded_at = recorded_at - interval '1 day' where notification_id = 5")
    meddler.execute(
        "update icecore.commands c set recorded_at = e.recorded_at from icecore.events e "
        "where e.notification_id = 5 and e.command_id = c.command_id"
    )
    rehash(meddler)
    report = await verify(dsn)
    assert [("events", "position 5", "recorded_at")] == [(d.table, d.key, d.column) for d in report.differences]


async def test_an_hour_that_comes_twice_where_postgres_has_summer_time_is_no_difference(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """Neither in the chain nor in the statistics, whatever the session's time zone."""
    meddler.execute("update icecore.events set recorded_at = '2026-10-24 23:50Z'::timestamptz + notification_id * interval '7 minutes'")
    meddler.execute(
        "update icecore.commands c set recorded_at = e.recorded_at from icecore.events e where e.command_id = c.command_id "
        "and e.notification_id = (select min(notification_id) from icecore.events o where o.command_id = c.command_id)"
    )
    rehash(meddler)
    async with projecting(dsn):
        await caught_up(dsn)
    before = {(d.table, d.key, d.column) for d in (await verify(dsn)).differences}
    name = sql.Identifier(meddler.info.dbname)
    meddler.execute(sql.SQL("alter database {} set timezone = 'Europe/Berlin'").format(name))
    assert before == {(d.table, d.key, d.column) for d in (await verify(dsn)).differences}
    assert not {table for table, *_ in before} & {"events", "warehouse_statistics"}


def rehash(connection: psycopg.Connection[Any]) -> None:
    """Recomputes the hash chain for the changed events."""
    connection.execute(
        "do $$ declare e icecore.events; h bytea := decode(repeat('00', 32), 'hex'); begin "
        "for e in select * from icecore.events order by notification_id loop "
        "h := icecore.event_hash(h, e); update icecore.events set hash = h where notification_id = e.notification_id; end loop; end $$"
    )


async def test_one_changed_byte_is_one_difference_in_the_chain(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """Each link is checked separately, so that later events are not reported."""
    meddler.execute("update icecore.events set actor = 'mallory' where notification_id = 5")
    report = await verify(dsn)
    assert [("events", "position 5", "hash")] == [(d.table, d.key, d.column) for d in report.differences]


async def test_a_state_that_cannot_be_read_is_a_difference_and_no_crash(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """The other streams are still compared."""
    meddler.execute("update icecore.events set state = 'not JSON' where notification_id = 5")
    report = await verify(dsn)
    assert ("events", "position 5", "state") in [(d.table, d.key, d.column) for d in report.differences]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("key", "gen_random_uuid()", "hash"),
        ("command_id", "gen_random_uuid()", "command_id"),
        ("request_hash", "request_hash || '\\x00'", "hash"),
        ("operation", "'loadTable'", "hash"),
        ("status", "201", "hash"),
        ("version", "version - 1", "version"),
        ("body", "'{}'", "hash"),
        ("hash", "sha256(hash)", "hash"),
        ("position", "position + 1", "position"),
        ("recorded_at", "recorded_at + interval '1 microsecond'", "recorded_at"),
        ("recorded_at", "'infinity'", "recorded_at"),
        ("object_id", "gen_random_uuid()", "object_id, version"),
        ("version", "version + 1", "object_id, version"),
        ("actor", "actor || 'x'", "actor"),
        ("project_id", "gen_random_uuid()", "project_id"),
        ("status", "400", "status"),
        ("status", "500", "status"),
    ],
)
async def test_an_idempotency_key_agrees_with_its_command(catalog: Application, column: str, value: str, said: str) -> None:
    """The record is not folded from the log, but its references and hash are checked."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace"))
    command = CreateTable(NamespaceIdentifier(("a",)), "t", None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable", key=uuid7(), request_hash=b"h"), run.warehouse, command)
    assert [] == (await verify(catalog.dsn)).differences
    with psycopg.connect(catalog.dsn) as connection:
        connection.execute(f"update icecore.idempotency set {column} = {value}")  # type: ignore[arg-type]  # the parameters above
    differences = (await verify(catalog.dsn)).differences
    assert {"idempotency"} == {difference.table for difference in differences}
    assert said in [difference.column for difference in differences]


async def test_an_idempotency_key_returns_the_version_of_its_own_command(catalog: Application) -> None:
    """Another version of the same object is reported even if the record's hash is correct."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table")):
        await run.step(step)
    identifier = TabularIdentifier(NamespaceIdentifier(("a",)), "t")
    for number in range(2):
        updates: list[Json] = [{"action": "set-properties", "updates": {"n": str(number)}}]
        command = CommitTable(identifier, [], updates)
        await commit_table(catalog.commands, context("updateTable", key=uuid7(), request_hash=b"h"), run.warehouse, command)
    assert [] == (await verify(catalog.dsn)).differences
    with psycopg.connect(catalog.dsn) as connection:
        connection.execute("update icecore.idempotency set version = 2")
        connection.execute(
            "update icecore.idempotency i set hash = icecore.idempotency_hash(e.hash, i) from icecore.events e "
            "where e.notification_id = i.position"
        )
    assert [("version", 3, 2)] == [(found.column, found.expected, found.found) for found in (await verify(catalog.dsn)).differences]


async def test_the_keys_of_every_kind_of_command_have_no_difference(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """For records with a version, the previous version, a document, or nothing."""

    def keyed(operation: str, **more: Any) -> RequestContext:
        return context(operation, **{"key": uuid7(), "request_hash": b"h", **more})

    monkeypatch.setattr(command_runs, "context", keyed)
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(catalog.dsn) as connection:
        operations = {name for (name,) in connection.execute("select operation from icecore.idempotency").fetchall()}
    assert {"createTable", "updateTable", "registerTable", "unregisterTable", "dropTable", "replaceView"} <= operations
    assert [] == (await verify_all(catalog.dsn)).differences


async def test_a_command_has_one_idempotency_key(catalog: Application) -> None:
    """A second one would respond to another request with the first one's outcome."""
    run = await CommandRun.on(catalog)
    keyed = context("createNamespace", key=uuid7(), request_hash=b"h")
    await create_namespace(catalog.commands, keyed, run.warehouse, CreateNamespace(NamespaceIdentifier(("a",)), {}))
    assert [] == (await verify_all(catalog.dsn)).differences
    with psycopg.connect(catalog.dsn) as connection:
        connection.execute(
            "insert into icecore.idempotency select project_id, actor, gen_random_uuid(), command_id, request_hash, operation, status, "
            "object_id, version, position, body, recorded_at, hash from icecore.idempotency"
        )
    assert ["command_id", "command_id", "hash"] == sorted(str(found.column) for found in (await verify_all(catalog.dsn)).differences)


# The schema, and records beside the log


@pytest.mark.parametrize(
    ("tampering", "named_so"),
    [
        ("alter table icecore.events disable trigger events_append_only", "events events_append_only"),
        ("drop trigger events_no_truncate on icecore.events", "events events_no_truncate"),
        ("create rule r as on insert to icecore.commands do also nothing", "commands r"),
        ("create trigger t before insert on icecore.claims for each row execute function icecore.refuse_change()", "claims t"),
        ("alter table icecore.sink_skips drop constraint sink_skips_reason_check", "sink_skips sink_skips_reason_check"),
        ("alter table icecore.commands drop constraint commands_pkey", "commands commands_pkey"),
        ("drop index icecore.events_event_id_idx", "events events_event_id_idx"),
        ("alter function icecore.append(jsonb, bytea[]) security invoker", "function append"),
        ("alter function icecore.append(jsonb, bytea[]) set search_path = public", "function append"),
        (
            "create function icecore.write_claims(c jsonb, other jsonb) returns void language sql as ''",
            "function write_claims(c jsonb, other jsonb), function write_claims",
        ),
        ("alter table icecore.commands set unlogged", "commands"),
        ("alter table icecore.events alter actor drop not null", "events actor"),
        ("alter table icecore.idempotency alter status type integer", "idempotency status"),
        ("alter table icecore.read_models alter one drop default", "read_models one"),
        ("alter table icecore.claims add column note text", "claims note"),
        ("alter table icecore.proposals rename column hook to asked", "proposals asked, proposals hook"),
        ("create index other on icecore.names (lower(name))", "names other"),
        ("drop index icecore.commands_last_position_idx", "commands commands_last_position_idx"),
        ("alter table icecore.tables enable row level security", "tables"),
        ("create table other () inherits (icecore.events)", "events"),
        ("create table icecore.other ()", "other"),
        ("create view icecore.other as select 1 as one", "other one, other, other _RETURN"),
        ("grant insert on icecore.events to public", "events"),
        ("grant insert (topic), update (actor) on icecore.events to public", "events actor, events topic"),
        ("grant update (head) on icecore.tables to public", "tables head"),
        ("grant insert, update, delete on icecore.idempotency to public", "idempotency"),
        (
            "grant insert, update (begun, location), delete on icecore.old_metadata_files to public",
            "old_metadata_files begun, old_metadata_files location, old_metadata_files",
        ),
        ("create role meddler; alter function icecore.append(jsonb, bytea[]) owner to meddler", "function append"),
        ("create role writes_all in role pg_write_all_data; grant usage on schema icecore to writes_all", "writes_all"),
        ("create role does_all superuser; grant usage on schema icecore to does_all", "does_all"),
        ("create role writes_through in role pg_write_all_data; create role through in role writes_through", "through, writes_through"),
        ("create role reads; grant usage on schema icecore to reads; grant select on icecore.events to reads", ""),
        ("create role forgets; grant delete on icecore.idempotency to forgets", "idempotency"),
        ("grant insert on icecore.table_parts, icecore.preloaded_parts to public", "preloaded_parts, table_parts"),
        ("grant all on icecore.part_tombstones, icecore.sinks, icecore.secrets to public", "part_tombstones, secrets, sinks"),
        ("grant execute on function icecore.append(jsonb, bytea[]) to public", "function append"),
        ("create role hashes; grant execute on all functions in schema icecore to hashes", FUNCTIONS_NOT_SERVED),
        ("grant create, usage on schema icecore to public", "icecore"),
        ("alter default privileges in schema icecore grant all on tables to public", "tables"),
        ("alter default privileges grant insert on tables to public", "tables"),
        ("alter function icecore.write_claims(jsonb) strict", "function write_claims"),
        ("alter function icecore.write_claims(jsonb) immutable", "function write_claims"),
        ("alter function icecore.write_claims(jsonb) parallel safe", "function write_claims"),
        ("alter function icecore.write_claims(jsonb) leakproof", "function write_claims"),
        ("alter function icecore.location_prefixes(text) volatile", "function location_prefixes"),
        # Neither changes the schema; they change how Postgres prints it.
        (in_this_database("quote_all_identifiers = on"), ""),
        (in_this_database("search_path = icecore"), ""),
        ("delete from icecore.migrations where number = 1", "0001_baseline"),
        ("update icecore.migrations set checksum = 'x' where number = 1", "0001_baseline"),
        ("insert into icecore.migrations (number, name, checksum, functions) values (99, 'other', 'x', 'x')", "0099_other"),
        ("create function icecore.other() returns integer language sql as 'select 1'", "function other, function other"),
        ("drop function icecore.write_rows(jsonb, bytea[], integer, bigint)", "function write_rows"),
        (
            "create or replace function icecore.refuse_change() returns trigger language plpgsql as 'begin return new; end'",
            "function refuse_change",
        ),
    ],
)
async def test_a_schema_that_was_tampered_with_is_named(database: str, tampering: str, named_so: str) -> None:
    """Functions, tables, columns, triggers, constraints, indexes and rules are exactly those of the migrations."""
    assert [] == (await verify_all(database)).differences
    with psycopg.connect(database) as connection:
        before = roles(connection)
        connection.execute(tampering.encode())
        made = roles(connection) - before
    assert named_so == ", ".join(difference.key for difference in (await verify_all(database)).differences)
    with psycopg.connect(database) as connection:
        # They belong to the server and other databases.
        for role in map(sql.Identifier, sorted(made)):
            connection.execute(sql.SQL("reassign owned by {} to current_user").format(role))
            connection.execute(sql.SQL("drop owned by {}; drop role {}").format(role, role))


async def test_an_administrator_that_is_named_in_the_settings_is_a_note_and_no_difference(database: str) -> None:
    """Any other role is a difference. Naming a role does not permit rights that were granted to it."""
    with psycopg.connect(database) as connection:
        before = roles(connection)
        connection.execute("create role administers in role pg_write_all_data; create role meddles in role pg_write_all_data")
        made = roles(connection) - before
    try:
        report = await verify_all(database, admin_roles=["administers"])
        assert ["meddles"] == [difference.key for difference in report.differences]
        assert "note: administers may write to the whole log: member of pg_write_all_data" in str(report)
        report = await verify_all(database, admin_roles=["administers", "meddles"])
        assert (True, 2) == (report.ok, len(report.notes))
        with psycopg.connect(database) as connection:
            connection.execute("grant insert on icecore.events to meddles")
        assert not (await verify_all(database, admin_roles=["administers", "meddles"])).ok
    finally:
        with psycopg.connect(database) as connection:
            for role in map(sql.Identifier, sorted(made)):
                connection.execute(sql.SQL("drop owned by {}; drop role {}").format(role, role))


def roles(connection: psycopg.Connection[Any]) -> set[str]:
    return {name for (name,) in connection.execute("select rolname from pg_roles").fetchall()}


async def test_the_recorded_schema_is_what_the_migrations_make(database: str) -> None:
    """On any version of Postgres. `python -m tests.servers.record_schema` writes it."""
    async with await psycopg.AsyncConnection.connect(database) as connection:
        assert recorded_schema() == await found_schema(connection)


async def test_a_secret_that_a_warehouse_refers_to_is_there(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """Without it the warehouse's files are inaccessible, although the log is complete."""
    secret_ref = UUID(int=5)
    meddler.execute("update icecore.warehouses set secret_ref = %s where status <> 'deleted'", (secret_ref,))
    meddler.execute(
        "insert into icecore.secrets (id, project_id, key_id, nonce, ciphertext) "
        "select %s, project_id, 'k', decode(repeat('00', 12), 'hex'), 'c' from icecore.warehouses limit 1",
        (secret_ref,),
    )

    async def of_secrets() -> list[Difference]:
        return [difference for difference in (await verify(dsn)).differences if difference.table == "secrets"]

    assert [] == await of_secrets()
    meddler.execute("update icecore.secrets set nonce = null, ciphertext = null, destroyed_at = now()")
    assert ["destroyed_at"] == [difference.column for difference in await of_secrets()]
    meddler.execute("delete from icecore.secrets")
    assert [(None, None)] == [(difference.column, difference.found) for difference in await of_secrets()]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("sinks", "(name, position) values ('s', 1000000)"),
        ("sinks", "(name, position, blocked_position) values ('s', 1, 1000000)"),
        ("sinks", "(name, position, lost_position) values ('s', 1, 1000000)"),
        (
            "sink_replays",
            "(replay_id, sink, from_position, to_position, filter, replayed_position) values (gen_random_uuid(), 's', 1, 1000000, '{}', 0)",
        ),
        ("sink_skips", "(sink, position, event_id, reason, actor) values ('s', 1000000, gen_random_uuid(), 'r', 'a')"),
        ("sink_skips", "(sink, position, event_id, reason, actor) values ('s', 1, gen_random_uuid(), 'r', 'a')"),
    ],
)
async def test_no_sink_is_ahead_of_the_log(catalog: Application, table: str, row: str) -> None:
    """A sink beyond the end has events of another log, or this one was restored to an earlier point."""
    with psycopg.connect(catalog.dsn) as connection:
        connection.execute("insert into icecore.sinks (name, position) values ('honest', 1)")
        connection.commit()
        assert [] == (await verify_all(catalog.dsn)).differences
        connection.execute(f"insert into icecore.{table} {row}".encode())
    assert [table] == [difference.table for difference in (await verify_all(catalog.dsn)).differences]


@pytest.mark.parametrize("kind", ["another table's file", "its key too", "another file under a key of its own", "a data file", "its own"])
async def test_an_old_metadata_file_is_in_its_table_s_locations(catalog: Application, kind: str) -> None:
    """The job would delete it, so a row that append did not write is reported."""
    run = await CommandRun.on(catalog)
    await create_namespace(catalog.commands, context("createNamespace"), run.warehouse, CreateNamespace(NamespaceIdentifier(("a",)), {}))
    for name in ("t", "other"):
        command = CreateTable(NamespaceIdentifier(("a",)), name, None, SCHEMA, None, None, {}, stage_create=False)
        await create_table(catalog.commands, context("createTable"), run.warehouse, command)
    with psycopg.connect(catalog.dsn) as connection:
        rows = connection.execute("select table_id, metadata_location, locations[1] from icecore.tables order by name").fetchall()
        (_, others_file, others_place), (table_id, own_file, place) = rows
        key, location = {
            "another table's file": ("x", others_file),
            "its key too": (f"{others_place}metadata/{others_file.rsplit('/')[-1]}/", others_file),
            "another file under a key of its own": (f"{place}metadata/{own_file.rsplit('/')[-1]}/", others_file),
            "a data file": (f"{place}data/x.parquet/", f"{own_file.rsplit('/', 2)[0]}/data/x.parquet"),
            "its own": (f"{place}metadata/{own_file.rsplit('/')[-1]}/", own_file),
        }[kind]
        connection.execute("insert into icecore.old_metadata_files values (%s, %s, %s, %s)", [key, table_id, run.warehouse.id, location])
    named_so = [] if kind == "its own" else [("old_metadata_files", f"key {key}")]
    assert named_so == [(difference.table, difference.key) for difference in (await verify_all(catalog.dsn)).differences]


async def test_a_refusal_cannot_have_been_recorded_beyond_the_log(dsn: str, meddler: psycopg.Connection[Any]) -> None:
    """A command without events has a position in the log and a time between its neighbours'."""
    meddler.execute(
        "insert into icecore.commands select gen_random_uuid(), null, 5, e.recorded_at from icecore.events e where notification_id = 5"
    )
    assert [] == (await verify(dsn)).differences
    meddler.execute("update icecore.commands set last_position = 1000000 where first_position is null")
    assert ["last_position"] == [difference.column for difference in (await verify(dsn)).differences]
    for elsewhen in ("2020-01-01", "2100-01-01"):
        meddler.execute("update icecore.commands set last_position = 5, recorded_at = %s where first_position is null", [elsewhen])
        assert ["recorded_at"] == [difference.column for difference in (await verify(dsn)).differences]


async def test_verification_looks_at_one_moment_while_writes_go_on(catalog: Application) -> None:
    """With concurrent writers there is no difference, and the reported heads increase."""
    run = await CommandRun.on(catalog)
    stopped = asyncio.Event()

    async def write(name: int) -> int:
        written = 0
        while not stopped.is_set():
            command = CreateNamespace(NamespaceIdentifier((f"n{name}-{written}",)), {})
            await create_namespace(catalog.commands, context("createNamespace"), run.warehouse, command)
            written += 1
        return written

    writers = [asyncio.create_task(write(name)) for name in range(4)]
    reports = [await verify(catalog.dsn) for _ in range(8)]
    stopped.set()
    written = sum(await asyncio.gather(*writers))
    assert [] == [difference for report in reports for difference in report.differences]
    heads = [report.head for report in reports]
    assert sorted(heads) == heads
    assert heads[0] < heads[-1], "writes went on"
    assert 1 + written == (await verify(catalog.dsn)).head


def test_the_command_line_says_by_its_exit_code_whether_there_is_a_difference(dsn: str) -> None:
    """0 without and 1 with a difference, which is on standard output."""

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ICECORE_DATABASE_URL": dsn, "ICECORE_UNSAFE_DURABILITY": "true"}
        return subprocess.run([sys.executable, "-m", "icecore", "verify"], env=environment, capture_output=True, text=True, timeout=60)

    honest = run()
    assert (0, "") == (honest.returncode, honest.stderr)
    with psycopg.connect(dsn) as connection:
        connection.execute("update icecore.names set name = name || 'x' where to_position is null and kind = 'view'")
    found = run()
    assert 1 == found.returncode
    assert "names [object_id" in found.stdout


def test_differences_read_as_sentences() -> None:
    """With table, key, column and both values, shortened if necessary."""
    owner = UUID(int=7)
    assert "names [object_id 1]: row is missing" == str(Difference("names", "object_id 1", None, (1,), None))
    assert "names [object_id 1]: row should not be there" == str(Difference("names", "object_id 1", None, None, (1,)))
    assert f'tables [k] owner: expected "{owner}", found null' == str(Difference("tables", "k", "owner", owner, None))
    assert "(1000 characters)" in str(Difference("tables", "k", "head", "x" * 1000, "y"))


async def test_a_check_that_fails_midway_leaves_no_cursor_open(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams are read from several cursors at once."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(verifying, "_fold", broken)
    async with await connect(dsn) as connection:
        await connection.execute("begin")
        with pytest.raises(ZeroDivisionError):
            await verifying._check_streams(connection, VerifyReport(), ALL_STREAMS)
        left = await connection.execute("select name from pg_cursors where name like 'verify%'")
        assert [] == await left.fetchall()
