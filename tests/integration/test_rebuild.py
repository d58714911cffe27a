"""Rebuild: the new generation equals the one written by appends, byte for byte, during reads and writes."""

import asyncio
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg import AsyncConnection, sql

from icecore.commands.execution import committer
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.command_response import CommandResponse
from icecore.commands.execution.committer_metrics import CommitterMetrics
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock
from icecore.domain.commands import CommitTable, CreateNamespace
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS
from icecore.domain.read_models.stream_fold import StreamFold
from icecore.projections import rebuild as rebuilding
from icecore.projections.rebuild import RebuildRunningError, rebuild
from icecore.projections.rebuild_part import Helper, forked_helpers
from icecore.projections.stream_ranges import StreamRange, parts_between
from icecore.projections.verify import verify
from icecore.projections.watch import Watch, not_watched
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun, Step, steps

# The `valid_to` that readers see.
EFFECTIVE = """coalesce(r.valid_to, (
  select c.valid_to from icecore.part_tombstones c
  where c.generation = r.generation and c.table_id = r.table_id and c.kind = r.kind and c.ordinals @> r.ordinal))"""


def dump(dsn: str, generation: int) -> dict[str, list[Any]]:
    """Every row of a generation without its number. Parts that a tombstone covers are shown as closed."""
    rows = {}
    with psycopg.connect(dsn) as connection:
        for model in READ_MODELS:
            found = connection.execute(
                "select column_name from information_schema.columns where table_schema = 'icecore' and table_name = %s "
                "and column_name <> 'generation' order by ordinal_position",
                (model.table,),
            ).fetchall()
            columns = sql.SQL(", ").join(sql.SQL(EFFECTIVE) if name == "valid_to" else sql.Identifier(name) for (name,) in found)
            select = sql.SQL("select {0} from {1} r where generation = %s order by {0}")
            query = select.format(columns, sql.Identifier("icecore", model.table))
            rows[model.table] = connection.execute(query, (generation,)).fetchall()
    return rows


def generations(dsn: str) -> set[int]:
    """The generations with rows."""
    with psycopg.connect(dsn) as connection:
        return {
            generation
            for model in (*READ_MODELS, PART_TOMBSTONES)
            for (generation,) in connection.execute(
                sql.SQL("select distinct generation from {}").format(sql.Identifier("icecore", model.table))
            )
        }


async def test_a_rebuilt_generation_equals_the_one_before_byte_for_byte(catalog: Application) -> None:
    """For every kind of event. The old rows are deleted."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)
    report = await rebuild(catalog.dsn)
    assert all(inline.values()), "the run leaves rows in every table"
    assert inline == dump(catalog.dsn, 2)
    assert {2} == generations(catalog.dsn)
    assert (2, sum(map(len, inline.values()))) == (report.generation, report.rows)
    assert report.events == (await verify(catalog.dsn)).head


async def test_limits_for_requests_hold_neither_for_a_rebuild_nor_for_verify(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folding a large stream takes longer than a database may allow its transactions to be idle."""
    await (await CommandRun.on(catalog)).step(Step("create_namespace"))
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        limit = sql.SQL("alter database {} set idle_in_transaction_session_timeout = '300ms'")
        connection.execute(limit.format(sql.Identifier(connection.info.dbname)))
    apply = StreamFold.apply

    def slowly(fold: StreamFold, *event: Any) -> None:
        time.sleep(0.6)
        apply(fold, *event)

    monkeypatch.setattr(StreamFold, "apply", slowly)
    assert 2 == (await rebuild(catalog.dsn)).generation
    assert [] == (await verify(catalog.dsn)).differences


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helper]]:
    """Two processes for one rebuild of any log."""
    monkeypatch.setattr(rebuilding, "_EVENTS_PER_PROCESS", 1)
    with forked_helpers(2) as forked:
        yield forked


def test_a_signal_ends_a_helper_without_the_handlers_of_the_first_process() -> None:
    """They would close there what the first process has opened."""
    caught = 1 << (signal.SIGTERM - 1)

    def catches(process: int | None) -> bool:
        return bool(int(re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{process}/status").read_text())[0], 16) & caught)

    former = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with forked_helpers(1) as [helper]:
            deadline = time.monotonic() + 5
            while catches(helper.process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            helper.process.terminate()
            helper.process.join(10)
            assert -signal.SIGTERM == helper.process.exitcode
    finally:
        signal.signal(signal.SIGTERM, former)


STOPPED_AT_FORK = """
import os, signal, sys
from icecore.projections.rebuild_part import forked_helpers
number = int(sys.argv[1])
signal.signal(number, lambda number, _: sys.exit(128 + number))
parent = os.getpid()
sent = []
def send():
    if not sent:
        sent.append(number)
        os.kill(parent, number)
os.register_at_fork(**{sys.argv[2]: send})
with forked_helpers(2):
    print("the signal was lost")
"""


@pytest.mark.parametrize("hook", ["before", "after_in_parent", "after_in_child"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_helpers_are_forked_ends_the_rebuild(number: signal.Signals, hook: str) -> None:
    """Python ignores exceptions in the hooks that run at a fork, such as those of logging."""
    command = [sys.executable, "-c", STOPPED_AT_FORK, str(int(number)), hook]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (128 + number, "", "") == (ended.returncode, ended.stdout, ended.stderr)


def test_helpers_are_forked_before_the_progress_bar_has_its_thread() -> None:
    """At the fork a thread may hold a lock, which nothing in the helper releases. And signals are blocked in one thread only."""
    helpers: list[int] = []

    @contextmanager
    def watched() -> Iterator[Watch]:
        helpers.append(len(multiprocessing.active_children()))
        raise ZeroDivisionError
        yield not_watched

    with pytest.raises(ZeroDivisionError):
        rebuilding.rebuild_on_every_core("", watched())
    assert [min(os.cpu_count() or 1, rebuilding._PROCESSES_MAX) - 1] == helpers


async def test_processes_rebuild_the_same_generation(catalog: Application, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream is in one of their parts. Events after their snapshot are added later."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    divided, parts = rebuilding._Attempt._divided, list[StreamRange]()

    async def divided_then_more(attempt: rebuilding._Attempt, processes: int) -> list[StreamRange]:
        parts.extend(await divided(attempt, processes))
        assert isinstance(await run.step(Step("create_namespace", 1)), CommandResponse)
        return parts

    monkeypatch.setattr(rebuilding._Attempt, "_divided", divided_then_more)
    report = await rebuild(catalog.dsn, helpers)
    assert 3 == len(parts)
    assert [] == (await verify(catalog.dsn)).differences
    assert {2} == generations(catalog.dsn)
    assert sum(map(len, dump(catalog.dsn, 2).values())) == report.rows


async def test_whoever_is_done_takes_the_next_part(catalog: Application, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    """With more parts than processes, every stream is copied once."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)
    with psycopg.connect(catalog.dsn) as connection:
        streams = [stream for (stream,) in connection.execute("select distinct originator_id from icecore.events")]

    async def divided(attempt: rebuilding._Attempt, processes: int) -> list[StreamRange]:
        return parts_between(streams)

    monkeypatch.setattr(rebuilding._Attempt, "_divided", divided)
    report = await rebuild(catalog.dsn, helpers)
    assert inline == dump(catalog.dsn, 2)
    assert sum(map(len, inline.values())) == report.rows


async def test_helpers_may_have_nothing_to_do(catalog: Application, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer parts than processes, and for a small log. They end normally."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)

    async def undivided(attempt: rebuilding._Attempt, processes: int) -> list[StreamRange]:
        return parts_between([])

    with monkeypatch.context() as patched:
        patched.setattr(rebuilding._Attempt, "_divided", undivided)
        await rebuild(catalog.dsn, helpers)
    assert inline == dump(catalog.dsn, 2)
    monkeypatch.setattr(rebuilding, "_EVENTS_PER_PROCESS", 1_000_000)
    await rebuild(catalog.dsn, helpers)
    assert inline == dump(catalog.dsn, 3)
    assert [True, True] == [helper.process.is_alive() for helper in helpers]


async def test_an_empty_log_can_be_rebuilt(database: str) -> None:
    report = await rebuild(database)
    assert (0, 0, 2) == (report.events, report.rows, report.generation)
    assert [] == (await verify(database)).differences


async def test_commands_go_on_after_a_rebuild(catalog: Application) -> None:
    """On the new generation, with caches of the old one."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table"), Step("commit", other=1)):
        await run.step(step)
    await rebuild(catalog.dsn)
    for step in (Step("commit", other=2), Step("commit", other=3), Step("rename_table", other=2)):
        outcome = await run.step(step)
        assert not isinstance(outcome, Exception), outcome
    report = await verify(catalog.dsn)
    assert ([], 2) == (report.differences, report.generation)


async def test_no_client_fails_while_generations_are_switched_under_writers(catalog: Application) -> None:
    """Frequently changed tables and new names, during three rebuilds. Afterwards the rows equal a rebuild without writers."""
    run = await CommandRun.on(catalog)
    tables = [TabularIdentifier(NamespaceIdentifier(("a",)), name) for name in ("t", "u")]
    await run.step(Step("create_namespace", 0))
    for name in (0, 2):
        await run.step(Step("create_table", 0, name))
    stopped = asyncio.Event()
    committed = 0

    async def commit(table: TabularIdentifier, writer: int) -> None:
        nonlocal committed
        while not stopped.is_set():
            update = {"action": "set-properties", "updates": {f"w{writer}": str(committed), f"k{committed % 7}": "v"}}
            await commit_table(catalog.commands, context("updateTable"), run.warehouse, CommitTable(table, [], [update]))
            committed += 1

    async def create(writer: int) -> None:
        nonlocal committed
        while not stopped.is_set():
            command = CreateNamespace(NamespaceIdentifier((f"n{writer}-{committed}",)), {})
            await create_namespace(catalog.commands, context("createNamespace"), run.warehouse, command)
            committed += 1

    writers = [asyncio.create_task(commit(tables[n % 2], n)) for n in range(4)] + [asyncio.create_task(create(9))]
    reports = []
    for _ in range(3):
        before = committed
        reports.append(await rebuild(catalog.dsn))
        assert committed > before, "writes went on"
        assert [] == (await verify(catalog.dsn)).differences
    stopped.set()
    await asyncio.gather(*writers)
    assert [2, 3, 4] == [report.generation for report in reports]
    inline = dump(catalog.dsn, 4)
    await rebuild(catalog.dsn)
    assert inline == dump(catalog.dsn, 5)


async def test_what_is_appended_between_the_rounds_is_caught_up(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events after the snapshot, and during the wait for the lock, of old and new streams, are in the new generation."""
    run = await CommandRun.on(catalog)
    half = len(EVERY_KIND) // 2
    for step in EVERY_KIND[:half]:
        await run.step(step)
    fold_all, switch = rebuilding._Attempt.fold_all, rebuilding._Attempt.switch

    async def fold_all_then_more(attempt: rebuilding._Attempt) -> None:
        await fold_all(attempt)
        for step in EVERY_KIND[half:-6]:
            await run.step(step)

    async def more_then_switch(attempt: rebuilding._Attempt) -> float:
        for step in EVERY_KIND[-6:]:
            await run.step(step)
        return await switch(attempt)

    monkeypatch.setattr(rebuilding._Attempt, "fold_all", fold_all_then_more)
    monkeypatch.setattr(rebuilding._Attempt, "switch", more_then_switch)
    await rebuild(catalog.dsn)
    assert [] == (await verify(catalog.dsn)).differences
    assert {2} == generations(catalog.dsn)


async def until(dsn: str, condition: str) -> None:
    """Waits until the condition holds in the database."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as looker, asyncio.timeout(60):
        while (True,) != await (await looker.execute(f"select {condition}")).fetchone():  # type: ignore[arg-type]
            await asyncio.sleep(0.02)


def waits(application: str, lock: str) -> str:
    """The condition that a connection with that name waits for a lock of that kind."""
    return (
        "exists (select from pg_stat_activity where datname = current_database() "
        f"and application_name = '{application}' and wait_event_type = 'Lock' and wait_event = '{lock}')"
    )


async def test_the_switch_waits_for_an_append_that_is_under_way(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append has written its rows and is not committed. It is in the new generation."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace", 0))
    async with await AsyncConnection.connect(catalog.dsn) as appending:
        written, going_on = asyncio.Event(), asyncio.Event()

        async def append_slowly(append_requests: Sequence[AppendRequest]) -> list[AppendResult]:
            results = await committer._send(appending, [*append_requests], CommitterMetrics())
            written.set()
            await going_on.wait()
            await appending.commit()
            return results

        with monkeypatch.context() as patched:
            patched.setattr(catalog.commands.committer, "submit_batch", append_slowly)
            creating = asyncio.create_task(run.step(Step("create_namespace", 2)))
            await written.wait()
            rebuilding_now = asyncio.create_task(rebuild(catalog.dsn))
            await until(catalog.dsn, waits("icecore-rebuild", "advisory"))
            going_on.set()
            created = await creating
    assert isinstance(created, CommandResponse), created
    report = await rebuilding_now
    assert (2, created.position) == (report.generation, report.events)
    assert [] == (await verify(catalog.dsn)).differences


async def test_an_append_waits_for_the_switch(catalog: Application) -> None:
    """It was decided on the old generation. After the switch it is decided again, with rows in the new one."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace", 0), Step("create_table", 0, 0)):
        await run.step(step)
    async with await AsyncConnection.connect(catalog.dsn) as holder:
        # The switch updates this row under the append lock.
        await holder.execute("select from icecore.read_models for update")
        rebuilding_now = asyncio.create_task(rebuild(catalog.dsn))
        await until(catalog.dsn, waits("icecore-rebuild", "transactionid"))
        committing = asyncio.create_task(run.step(Step("commit", 0, 0, 1)))
        await until(catalog.dsn, waits("icecore-committer", "advisory"))
        assert not committing.done()
        await holder.rollback()
    report, committed = await rebuilding_now, await committing
    assert isinstance(committed, CommandResponse), committed
    assert (2, committed.position - 1) == (report.generation, report.events)
    assert [] == (await verify(catalog.dsn)).differences
    assert {2} == generations(catalog.dsn)


async def test_the_switch_waits_for_the_disk_though_the_copy_does_not(catalog: Application) -> None:
    """Its commit makes the copy durable. Without that, a crash could lose rows of the current generation."""
    run = await CommandRun.on(catalog)
    await run.step(Step("create_namespace", 0))
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        connection.execute("create table seen (at_table text, synchronous_commit text)")
        connection.execute(
            "create function see() returns trigger language plpgsql as "
            "$$ begin insert into public.seen values (tg_table_name, current_setting('synchronous_commit')); return null; end $$"
        )
        for table in ("namespaces", "read_models"):
            where = sql.Identifier("icecore", table)
            connection.execute(sql.SQL("create trigger see after insert or update on {} execute function public.see()").format(where))
        await rebuild(catalog.dsn)
        assert [("namespaces", "off"), ("read_models", "on")] == connection.execute("select distinct * from seen order by 1").fetchall()


async def test_rows_of_every_other_generation_go_from_every_page(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of unfinished rebuilds, with older and newer numbers, many times the pages of one statement."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)
    monkeypatch.setattr(rebuilding, "_DELETE_PAGES", 2)
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        for model in (*READ_MODELS, PART_TOMBSTONES):
            table, columns = sql.Identifier("icecore", model.table), sql.SQL(", ").join(map(sql.Identifier, model.columns))
            (rows,) = connection.execute(sql.SQL("select count(*) from {}").format(table)).fetchone() or (0,)
            copied = sql.SQL(
                "insert into {0} (generation, {1}) select n, {1} from {0} r, generate_series(%s::int, %s::int) n where generation = 1"
            )
            for first, last in ((-1_200 // rows, 0), (2, 2 + 1_200 // rows)):
                connection.execute(copied.format(table, columns), (first, last))
            (size,) = connection.execute("select pg_relation_size(%s::regclass) / 8192", (f"icecore.{model.table}",)).fetchone() or (0,)
            assert size > 3 * 2, f"{model.table} fills several statements"
    await rebuild(catalog.dsn)
    assert {2} == generations(catalog.dsn)
    assert inline == dump(catalog.dsn, 2)
    assert [] == (await verify(catalog.dsn)).differences


async def test_rows_that_cannot_be_copied_end_the_rebuild_and_the_old_generation_serves(catalog: Application) -> None:
    """The copy runs concurrently with the fold. Its error is raised, and the next attempt starts from scratch."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        connection.execute("alter table icecore.table_parts add constraint full_disk check (generation < 2)")
        with pytest.raises(psycopg.errors.CheckViolation):
            await rebuild(catalog.dsn)
        assert {1} == generations(catalog.dsn)
        connection.execute("alter table icecore.table_parts drop constraint full_disk")
    assert 2 == (await rebuild(catalog.dsn)).generation
    assert [] == (await verify(catalog.dsn)).differences


async def test_one_rebuild_at_a_time(catalog: Application) -> None:
    """The second one is refused and changes nothing."""
    async with await AsyncConnection.connect(catalog.dsn) as holder:
        await holder.execute("select pg_advisory_xact_lock(%s)", [AdvisoryLock.APPEND])
        first = asyncio.create_task(rebuild(catalog.dsn))
        await until(catalog.dsn, waits("icecore-rebuild", "advisory"))
        before = dump(catalog.dsn, 2)
        with pytest.raises(RebuildRunningError):
            await rebuild(catalog.dsn)
        assert before == dump(catalog.dsn, 2), "the first one's rows are as they were"
        assert any(before.values())
        await holder.commit()
        assert 2 == (await first).generation
    assert 3 == (await rebuild(catalog.dsn)).generation


KILLED = """
import asyncio, sys
from icecore.projections import rebuild as rebuilding

async def hang(attempt):
    print("copied", flush=True)
    await asyncio.sleep(60)

setattr(rebuilding._Attempt, sys.argv[2], hang)
asyncio.run(rebuilding.rebuild(sys.argv[1]))
"""

DIVIDED = """
import os, sys
from icecore.projections import rebuild as rebuilding

rebuilding._EVENTS_PER_PROCESS = 1
os.cpu_count = lambda: 3
rebuilding.rebuild_on_every_core(sys.argv[1])
"""


async def test_a_process_that_fails_fails_the_rebuild(catalog: Application) -> None:
    """The process logs the reason. The old generation serves, and the next attempt starts from scratch."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        # The lock of the helper processes.
        others = (
            "exists (select 1 from pg_locks where pid = pg_backend_pid() and mode = 'ShareLock' "
            f"and (classid::bigint << 32 | objid::bigint) = {AdvisoryLock.REBUILD_PARTS:d})"
        )
        connection.execute(f"create function others() returns boolean language sql as $$ select {others} $$")
        for model in READ_MODELS:
            full = sql.SQL("alter table {} add constraint full_disk check (not others())")
            connection.execute(full.format(sql.Identifier("icecore", model.table)))
        divided = [sys.executable, "-c", DIVIDED, catalog.dsn]
        process = await asyncio.create_subprocess_exec(*divided, cwd=Path(__file__).parents[2], stderr=asyncio.subprocess.PIPE)
        _, said = await process.communicate()
        assert (1, True, True) == (process.returncode, b"full_disk" in said, b"PartFailedError" in said)
        for model in READ_MODELS:
            connection.execute(sql.SQL("alter table {} drop constraint full_disk").format(sql.Identifier("icecore", model.table)))
    assert [] == (await verify(catalog.dsn)).differences
    assert 2 == (await rebuild(catalog.dsn)).generation
    assert [] == (await verify(catalog.dsn)).differences


@pytest.mark.parametrize("point", ["catch_up", "switch"])
async def test_a_rebuild_that_was_killed_leaves_nothing_the_next_one_minds(catalog: Application, point: str) -> None:
    """kill -9 with a partial generation: the old one serves, and the next attempt starts from scratch."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", KILLED, catalog.dsn, point]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=root)
    assert process.stdout is not None
    assert b"copied\n" == await process.stdout.readline()
    process.kill()
    await process.wait()
    assert {1, 2} == generations(catalog.dsn), "half a generation was left"
    assert [] == (await verify(catalog.dsn)).differences, "the old one serves"
    await run.step(Step("create_namespace", 1))
    inline_after = dump(catalog.dsn, 1)
    async with asyncio.timeout(30):
        while True:
            try:
                report = await rebuild(catalog.dsn)
                break
            except RebuildRunningError:  # Postgres has not noticed the other's end yet.
                await asyncio.sleep(0.05)
    assert 2 == report.generation
    assert inline != inline_after
    assert inline_after == dump(catalog.dsn, 2)
    assert {2} == generations(catalog.dsn)


async def test_the_next_rebuild_deletes_an_old_generation_that_was_left(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that dies after its switch leaves the previous generation. The next rebuild deletes it."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    inline = dump(catalog.dsn, 1)
    delete_others = rebuilding._delete_others

    async def delete_or_die(writer: AsyncConnection, kept: int, tables: Collection[str]) -> None:
        if kept == 2:
            raise ConnectionAbortedError
        await delete_others(writer, kept, tables)

    with monkeypatch.context() as patched:
        patched.setattr(rebuilding, "_delete_others", delete_or_die)
        with pytest.raises(ConnectionAbortedError):
            await rebuild(catalog.dsn)
    assert {1, 2} == generations(catalog.dsn)
    assert [] == (await verify(catalog.dsn)).differences
    assert 3 == (await rebuild(catalog.dsn)).generation
    assert inline == dump(catalog.dsn, 3)
    assert {3} == generations(catalog.dsn)


async def test_the_processes_of_a_rebuild_that_was_killed_end_with_it(catalog: Application) -> None:
    """While one may still write, no rebuild begins. Afterwards none of their rows is in the new generation."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    connections = "select count(*) from pg_stat_activity where application_name = 'icecore-rebuild' and datname = current_database()"
    waiting = connections + " and wait_event_type = 'Lock'"
    async with await AsyncConnection.connect(catalog.dsn) as holder, await AsyncConnection.connect(catalog.dsn, autocommit=True) as looker:

        async def until(count: int, query: str) -> None:
            async with asyncio.timeout(60):
                while (count,) != await (await looker.execute(query)).fetchone():
                    await asyncio.sleep(0.02)

        # The copying process waits for this during a transaction.
        tables = sql.SQL(", ").join(sql.Identifier("icecore", model.table) for model in READ_MODELS)
        await holder.execute(sql.SQL("lock table {} in share mode").format(tables))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIVIDED, catalog.dsn, cwd=Path(__file__).parents[2])
        await until(3, waiting)
        process.kill()
        await process.wait()
        # Its own session ends before theirs.
        ending = "select pg_terminate_backend(pid) from pg_locks where (classid::bigint << 32 | objid::bigint) = %s"
        await looker.execute(ending, [AdvisoryLock.REBUILD])
        await until(2, waiting)
        with pytest.raises(RebuildRunningError, match="still stopping"):
            await rebuild(catalog.dsn)
        await holder.rollback()
        await until(0, connections)
    assert 2 == (await rebuild(catalog.dsn)).generation
    assert [] == (await verify(catalog.dsn)).differences


def test_whatever_was_commanded_is_rebuilt_and_verified(new_database: Callable[[], str], tmp_path: Path) -> None:
    """Random commands: the rows written by single appends equal those of a rebuild, in one fold and in rounds."""
    count = 0

    async def run(drawn: list[Step]) -> None:
        nonlocal count
        count += 1
        async with opened_catalog(new_database(), tmp_path / f"warehouse{count}") as catalog:
            commands = await CommandRun.on(catalog)
            for step in drawn:
                await commands.step(step)
            assert [] == (await verify(catalog.dsn)).differences
            inline = dump(catalog.dsn, 1)
            await rebuild(catalog.dsn)
            assert inline == dump(catalog.dsn, 2)
            # Again, with rounds only.
            fold_all = rebuilding._Attempt.fold_all
            rebuilding._Attempt.fold_all = _nothing  # type: ignore[method-assign, assignment]
            try:
                await rebuild(catalog.dsn)
            finally:
                rebuilding._Attempt.fold_all = fold_all  # type: ignore[method-assign]
            assert inline == dump(catalog.dsn, 3)

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps(max_size=25, min_size=8))
    def same(drawn: list[Step]) -> None:
        asyncio.run(run(drawn))

    same()


async def _nothing(attempt: rebuilding._Attempt) -> None:
    """A snapshot of an empty log."""
