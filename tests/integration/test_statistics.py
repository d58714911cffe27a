"""Statistics of warehouses: the worker counts each event of the log once, even if workers fail."""

import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import structlog
from eventsourcing.persistence import OperationalError, Tracking
from eventsourcing.utils import Environment
from psycopg import Cursor
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow
from uuid_utils.compat import uuid7

from icecore import asynchronous_projections
from icecore.api.paging import listing_digest, page_token
from icecore.asynchronous_projections import rebuild_projection
from icecore.compose import Application
from icecore.domain.events import topics
from icecore.domain.read_models.statistics import COUNTED, Counted, Counts, count
from icecore.domain.recorded import RecordedEvent
from icecore.log import event_store
from icecore.projections.asynchronous.projection import GATHERED_BYTES_MAX, GATHERED_EVENTS_MAX
from icecore.projections.asynchronous.statistics import StatisticsProjection, StatisticsView
from icecore.projections.verify import verify
from tests.fixtures.asynchronous import caught_up, fold_asynchronous, head, position, projecting, rows
from tests.fixtures.catalog import SECRET_KEY, CatalogServer
from tests.fixtures.command_runs import EVERY_KIND, CommandRun, Step
from tests.fixtures.cutting_proxy import CuttingProxy
from tests.fixtures.operator_commands import operator_on, read_json
from tests.fixtures.rest_client import RestClient
from tests.integration.test_outage_logs import closed, opened
from tests.integration.test_warehouse_routes import Management
from tests.servers.paths import ROOT

NOT_COUNTED = {
    "project.created", "project.renamed", "project.deleted",
    "warehouse.config-changed", "warehouse.renamed", "warehouse.activated", "warehouse.deactivated", "warehouse.protection-changed",
    "warehouse.format-version-policy-changed", "warehouse.storage-profile-changed", "warehouse.storage-credential-changed",
    "warehouse.read-only-changed", "warehouse.delete-profile-changed", "warehouse.purge-default-changed", "warehouse.deleted",
    "warehouse.namespace-moved", "namespace.moved", "namespace.expired", "warehouse.task-queue-config-changed", "table.purge-cancelled",
    "task.scheduled", "task.stopped", "task.deletion-begun", "task.attempt-failed",
    "maintenance.planned", "maintenance.finished",
    "namespace.properties-changed", "namespace.protection-changed", "table.protection-changed", "view.protection-changed",
    "table.overwritten", "table.renamed", "table.expired", "table.purged", "view.renamed", "view.expired",
    "proposal.opened", "proposal.approved", "proposal.rejected", "proposal.expired", "proposal.stale",
}  # fmt: skip


# Computed without the product's fold: existing objects by their stream's last event, commits by topic.
def _standing(kind: str, gone: str) -> str:
    return f"""
    (select count(*) from (
       select distinct on (originator_id) topic from icecore.events o
       where o.warehouse_id = h.warehouse_id and o.recorded_at < h.hour + interval '1 h' and starts_with(o.topic, '{kind}.')
       order by originator_id, originator_version desc) last
     where topic !~ '[.]({gone})[.]')"""


RECOUNT = f"""
select h.warehouse_id, h.hour, {_standing("table", "dropped|expired|unregistered|purged|purge-cancelled")},
       {_standing("view", "dropped|expired")}, {_standing("namespace", "dropped|expired")}, h.commits
from (
  select warehouse_id, date_trunc('hour', recorded_at, 'UTC') as hour,
         count(*) filter (where topic in ('table.committed.v1', 'view.committed.v1')) as commits
  from icecore.events
  where not starts_with(topic, 'project.') and topic ~ '(created|registered|dropped|undropped|committed|unregistered)[.]v1$' group by 1, 2
) h order by 1, 2
"""
ROWS = "select warehouse_id, hour, tables, views, namespaces, commits from icecore.warehouse_statistics order by 1, 2"
SPREAD = "update icecore.events set recorded_at = date_trunc('hour', now()) - interval '40 h' + notification_id * interval '17 min'"


def spread_over_hours(dsn: str) -> None:
    """Changes the log's times, as if events were recorded in many hours."""
    with psycopg.connect(dsn) as connection:
        connection.execute("alter table icecore.events disable trigger events_append_only")
        connection.execute(SPREAD)
        connection.execute("alter table icecore.events enable trigger events_append_only")


@contextmanager
def worker(dsn: str, log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """`icecore worker`; ended at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    environment |= {"ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": SECRET_KEY, "ICECORE_LOG_FORMAT": "json", **variables}
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-m", "icecore", "worker"], cwd=ROOT, env=environment, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def records(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def random_history(run: CommandRun, seed: int, steps: int) -> None:
    drawn = random.Random(seed)
    kinds = sorted({step.kind for step in EVERY_KIND})
    for step in EVERY_KIND:
        await run.step(step)
    for _ in range(steps):
        await run.step(Step(drawn.choice(kinds), drawn.randrange(2), drawn.randrange(3), drawn.randrange(4)))


def event(
    position: int,
    topic: str = "namespace.created.v1",
    *,
    state: bytes = b"{}",
    warehouse: int = 1,
    recorded_at: str = "2026-03-29T00:30:00+00:00",
) -> RecordedEvent:
    at = datetime.fromisoformat(recorded_at)
    fields: Any = [uuid7(), 1, topic, state, position, uuid7(), uuid7(), at, "a", UUID(int=0), UUID(int=warehouse)]
    return RecordedEvent(*fields, "r", None, None, None, None, b"")  # type: ignore[call-arg]


@contextmanager
def opened_view(dsn: str, kind: type[StatisticsView] = StatisticsView) -> Iterator[StatisticsView]:
    """Opened as by the library's runner."""
    factory = event_store.LogFactory(Environment("statistics", event_store.environment(dsn)))
    yield factory.tracking_recorder(kind)
    factory.close()


def gather(view: StatisticsView, *events: RecordedEvent) -> None:
    for each in events:
        view.gather(each, Tracking("Icecore", each.position))


def test_every_event_is_counted_or_named_as_one_that_is_not() -> None:
    """A new kind of event needs a decision here."""
    assert {topic.rpartition(".")[0] for topic in topics()} == set(COUNTED) | NOT_COUNTED
    assert set() == set(COUNTED) & NOT_COUNTED


def test_hours_are_those_of_utc() -> None:
    """For times in any zone, to the microsecond."""
    found: Counted = {}
    given = [("table.created.v1", "2026-03-29T00:59:59.999999+00:00"), ("table.committed.v1", "2026-03-29T06:30:00+05:30")]
    count([event(1, topic, recorded_at=recorded_at) for topic, recorded_at in given], found)
    assert [(datetime(2026, 3, 29, 0, tzinfo=UTC), Counts(tables=1)), (datetime(2026, 3, 29, 1, tzinfo=UTC), Counts(commits=1))] == [
        (hour.begins_at, added) for hour, (added, _) in found.items()
    ]


def test_events_are_gathered_until_they_are_many_or_large(database: str) -> None:
    """They are written in one transaction, and later ones are collected again."""
    large = bytes(GATHERED_BYTES_MAX // 2)
    with opened_view(database) as view:
        gather(view, *[event(n, state=large) for n in (1, 2)])
        assert 2 == position(database)
        gather(view, *[event(n) for n in range(3, GATHERED_EVENTS_MAX + 2)])
        assert 2 == position(database)
        gather(view, event(GATHERED_EVENTS_MAX + 2))
        assert GATHERED_EVENTS_MAX + 2 == position(database)
    assert [(GATHERED_EVENTS_MAX + 2,)] == rows(database, "select namespaces from icecore.warehouse_statistics")


class Slow(StatisticsView):
    """A view that writes on demand."""

    writing, going_on = threading.Event(), threading.Event()

    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        self.writing.set()
        assert self.going_on.wait(20)
        super().write(cursor, events)


def test_what_comes_while_events_are_written_is_gathered_behind_them(database: str) -> None:
    """The library's thread collects, another one flushes."""
    with opened_view(database, Slow) as view, ThreadPoolExecutor(2) as threads:
        gather(view, event(1))
        flushing = threads.submit(view.flush)
        assert view.writing.wait(20)
        gathering = threads.submit(gather, view, event(2))
        time.sleep(0.2)
        view.going_on.set()
        gathering.result(20)
        flushing.result(20)
        view.flush()
    assert 2 == position(database)


def test_an_hour_stands_on_that_of_its_own_warehouse(database: str) -> None:
    """With any number of warehouses, in any order."""
    second = "2026-03-29T02:30:00+00:00"
    with opened_view(database) as view:
        gather(view, event(1), event(2), event(3, warehouse=2, recorded_at=second))
        view.flush()
        gather(view, event(4, recorded_at=second), event(5, warehouse=3, recorded_at=second), event(6, warehouse=3, recorded_at=second))
        view.flush()
    select = "select warehouse_id, to_char(hour at time zone 'UTC', 'HH24'), namespaces from icecore.warehouse_statistics order by 1, 2"
    expected = [(1, "00", 2), (1, "02", 3), (2, "02", 1), (3, "02", 2)]
    assert expected == [(warehouse_id.int, hour, namespaces) for warehouse_id, hour, namespaces in rows(database, select)]


async def test_a_read_model_that_has_all_of_the_log_is_left_alone(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not restarted, however long there are no events."""
    monkeypatch.setattr(asynchronous_projections, "SILENCE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(asynchronous_projections, "FLUSH_SECONDS", 0.1)
    await CommandRun.on(catalog)
    with structlog.testing.capture_logs() as said:
        async with projecting(catalog.dsn):
            await caught_up(catalog.dsn)
            await asyncio.sleep(2)
    assert ["projection_leader_started"] == [each["event"] for each in said if each["event"].startswith("projection_")]


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_random_history_is_counted_as_the_log_has_it(catalog: Application, seed: int) -> None:
    """Tables that are dropped, unregistered, renamed and overwritten, views and namespaces, during many hours."""
    run = await CommandRun.on(catalog)
    await random_history(run, seed, 150)
    spread_over_hours(catalog.dsn)
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)
    expected = rows(catalog.dsn, RECOUNT)
    assert len(expected) > 10
    assert expected == rows(catalog.dsn, ROWS)
    assert [] == [each for each in (await verify(catalog.dsn)).differences if "statistics" in each.table]


async def test_verify_finds_what_was_counted_wrong(catalog: Application) -> None:
    """A wrong count, an additional row, a missing row, and a position beyond the log."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:9]:
        await run.step(step)
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)
    assert [] == (await verify(catalog.dsn)).differences
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        for harm, mended in (
            ("update icecore.warehouse_statistics set tables = tables + 1", "update icecore.warehouse_statistics set tables = tables - 1"),
            (
                "insert into icecore.warehouse_statistics select warehouse_id, hour - interval '1 h', 0, 0, 0, 0, now() "
                "from icecore.warehouse_statistics",
                "delete from icecore.warehouse_statistics where updated_at > (select max(recorded_at) from icecore.events)",
            ),
            (
                "insert into icecore.statistics_tracking values ('A', 3)",
                "delete from icecore.statistics_tracking where application_name = 'A'",
            ),
            (
                "update icecore.statistics_tracking set notification_id = notification_id + 1000",
                "update icecore.statistics_tracking set notification_id = notification_id - 1000",
            ),
        ):
            connection.execute(harm.encode())
            assert 1 == len((await verify(catalog.dsn)).differences), harm
            connection.execute(mended.encode())
        assert [] == (await verify(catalog.dsn)).differences
        connection.execute("delete from icecore.warehouse_statistics")
        assert 1 == len((await verify(catalog.dsn)).differences)
        connection.execute("update icecore.statistics_tracking set notification_id = -1")
        assert 1 == len((await verify(catalog.dsn)).differences)
        connection.execute("update icecore.statistics_tracking set application_name = 'A', notification_id = 0")
        assert 2 == len((await verify(catalog.dsn)).differences)
        connection.execute("delete from icecore.statistics_tracking")
        assert 1 == len((await verify(catalog.dsn)).differences)


async def test_it_continues_counting_and_restarts_after_a_rebuild(catalog: Application) -> None:
    """Nothing is counted twice, and nothing is left out."""
    run = await CommandRun.on(catalog)
    async with projecting(catalog.dsn):
        for step in EVERY_KIND[:12]:
            await run.step(step)
        await caught_up(catalog.dsn)
        expected = rows(catalog.dsn, RECOUNT)
        assert expected == rows(catalog.dsn, ROWS)
        await asyncio.sleep(2 * asynchronous_projections.FLUSH_SECONDS)
        await asyncio.to_thread(rebuild_projection, catalog.dsn, StatisticsProjection)
        assert expected == rows(catalog.dsn, ROWS)
        for step in EVERY_KIND[12:18]:
            await run.step(step)
        await caught_up(catalog.dsn)
        assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


@pytest.mark.parametrize(
    "harm",
    [
        "truncate icecore.statistics_tracking",
        "update icecore.statistics_tracking set application_name = 'A'",
        "update icecore.statistics_tracking set notification_id = -1",
        "insert into icecore.statistics_tracking values ('A', 3)",
        "truncate icecore.warehouse_statistics",
    ],
)
async def test_a_rebuild_mends_the_statistics_whatever_became_of_them(catalog: Application, harm: str) -> None:
    """Including the row with the position, without which nothing is counted."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    await fold_asynchronous(catalog.dsn)
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        connection.execute(harm.encode())
    assert head(catalog.dsn) == await asyncio.to_thread(rebuild_projection, catalog.dsn, StatisticsProjection)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)
    assert [] == (await verify(catalog.dsn)).differences


async def test_events_that_come_during_rebuilds_are_counted_once(catalog: Application) -> None:
    """The counting process is past the first event and must not continue from there."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    async with projecting(catalog.dsn):
        for number in range(40):
            await run.step(Step("commit", 0, 0, 0))
            if number % 10 == 0:
                await asyncio.to_thread(rebuild_projection, catalog.dsn, StatisticsProjection)
        await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


class LateStop(StatisticsView):
    """A faulty view: the position is committed before the rows."""

    def _flush(self) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, self._tracking)
        failing()
        with self.datastore.transaction(commit=True) as cursor:
            self.write(cursor, self._events)
        self._events = []


class FailsInTheMiddle(StatisticsView):
    """Fails after moving the position and before writing the rows, like a killed process."""

    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        failing()
        super().write(cursor, events)


failures = iter(())


def failing() -> None:
    for failure in failures:
        raise failure


@pytest.mark.parametrize(("view", "right"), [(FailsInTheMiddle, True), (LateStop, False)])
async def test_what_ends_in_the_middle_counts_once(
    catalog: Application, monkeypatch: pytest.MonkeyPatch, view: type[StatisticsView], right: bool
) -> None:
    """Position and rows are one transaction. With two, the counts would be wrong."""
    global failures
    failures = iter([RuntimeError("ended here")] * 2)
    monkeypatch.setattr(StatisticsProjection, "VIEW", view)
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)
    assert right == (rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS))


async def test_workers_that_are_killed_and_two_at_once_count_once(catalog: Application, tmp_path: Path) -> None:
    """`kill -9` during events. A remaining worker takes over."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    log = tmp_path / "worker.log"
    log.touch()
    with worker(catalog.dsn, log), worker(catalog.dsn, log) as second:
        for kills in range(3):
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                await run.step(Step("commit", 0, 0, 0))
            if kills == 0:
                second.send_signal(signal.SIGKILL)
            else:
                with worker(catalog.dsn, log) as third:
                    await asyncio.sleep(1)
                    await run.step(Step("commit", 0, 0, 0))
                    third.send_signal(signal.SIGKILL)
        await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)
    assert [] == (await verify(catalog.dsn)).differences
    assert [] == [each for each in records(log) if each["level"] in ("error", "critical")]


async def test_two_that_both_believe_to_lead_count_once(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lost its lock without noticing conflicts with the other at the position."""

    async def leads(*_: object) -> bool:
        return True

    monkeypatch.setattr(asynchronous_projections, "try_lock", leads)
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    async with projecting(catalog.dsn), projecting(catalog.dsn):
        for _ in range(60):
            await run.step(Step("commit", 0, 0, 0))
            await asyncio.sleep(0.05)
        await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


async def test_an_outage_is_lived_through_and_said_once(catalog: Application, admin_dsn: str) -> None:
    """No connection can be opened for some rounds. The log has one record of the beginning and one of the end."""
    run, name = await CommandRun.on(catalog), str(conninfo_to_dict(catalog.dsn)["dbname"])
    for step in EVERY_KIND[:6]:
        await run.step(step)
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)
        with structlog.testing.capture_logs() as said:
            closed(admin_dsn, name)
            await asyncio.sleep(5)
            opened(admin_dsn, name)
            with psycopg.connect(catalog.dsn, autocommit=True) as connection:
                assert 0 < connection.execute("select max(notification_id) from icecore.events").fetchall()[0][0]
            await eventually(lambda: "projection_recovered" in [each["event"] for each in said])
        assert [1, 1] == [[each["event"] for each in said].count(event) for event in ("projection_retrying", "projection_recovered")]
        await run.step(Step("create_namespace", 1))
        await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


async def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("frozen", ["all", "reader"])
async def test_sessions_that_freeze_are_left(catalog: Application, monkeypatch: pytest.MonkeyPatch, frozen: str) -> None:
    """A dead network connection without an error, or a hung process of Postgres. Other sessions are used."""
    monkeypatch.setattr(asynchronous_projections, "SILENCE_SECONDS_MAX", 2.0)
    monkeypatch.setattr(asynchronous_projections, "CLOSE_SECONDS_MAX", 0.5)
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    async with CuttingProxy(catalog.dsn).running() as proxy, projecting(proxy.dsn):
        await caught_up(catalog.dsn)
        stopped: list[int] = []
        if frozen == "all":
            proxy.is_frozen = True
        else:
            reading = "select pid from pg_stat_activity where query like '%originator_id as stream_id%' and pid <> pg_backend_pid()"
            stopped = [pid for (pid,) in rows(catalog.dsn, reading)]
            assert stopped
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        await run.step(Step("commit", 0, 0, 0))
        await asyncio.sleep(4)
        if frozen == "all":
            assert position(catalog.dsn) < head(catalog.dsn)
            # As the kernel ends dead connections: the sessions end and release the lock.
            end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'icecore-projections'"
            rows(catalog.dsn, end + " and datname = current_database()")
            proxy.is_frozen = False
        try:
            await caught_up(catalog.dsn)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


async def test_rows_that_somebody_has_locked_are_waited_for_without_more_and_more_sessions(
    catalog: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by VACUUM FULL or a rebuild. A statement that times out also ends in Postgres, and a stop does not wait for the lock."""
    monkeypatch.setattr(asynchronous_projections, "SILENCE_SECONDS_MAX", 1.0)
    monkeypatch.setattr(asynchronous_projections, "CLOSE_SECONDS_MAX", 0.5)
    monkeypatch.setattr(event_store, "_STATEMENTS_END", "-c statement_timeout=500ms")
    run = await CommandRun.on(catalog)
    with psycopg.connect(catalog.dsn) as locking, structlog.testing.capture_logs() as said:
        async with projecting(catalog.dsn):
            await caught_up(catalog.dsn)
            locking.execute("lock icecore.warehouse_statistics")
            for step in EVERY_KIND[:6]:
                await run.step(step)
            most = 0
            for _ in range(50):
                sessions = rows(catalog.dsn, "select pid from pg_stat_activity where application_name = 'icecore-projections'")
                most = max(most, len(sessions))
                await asyncio.sleep(0.2)
            assert most <= 6
            began = time.monotonic()
        assert time.monotonic() - began < 4
    assert not [each for each in said if "CancelledError" in str(each.get("error"))]
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


async def test_attempts_that_cannot_begin_leave_no_session(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Postgres has room for only some of their connections, they must be closed for the next attempt."""

    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("no room")

    monkeypatch.setattr(event_store.LogRecorder, "subscribe", refuse)
    gc.disable()
    try:
        async with projecting(catalog.dsn):
            await asyncio.sleep(5)
            sessions = rows(catalog.dsn, "select pid from pg_stat_activity where application_name = 'icecore-projections'")
            assert len(sessions) <= 3
    finally:
        gc.enable()


async def test_the_environment_is_not_the_projection_s(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the library may be meant for another program in the same container."""
    for name in ("POSTGRES_LOCK_TIMEOUT", "STATISTICS_POSTGRES_SCHEMA", "PERSISTENCE_MODULE"):
        monkeypatch.setenv(name, "another")
    await CommandRun.on(catalog)
    async with projecting(catalog.dsn):
        await caught_up(catalog.dsn)


async def test_who_waits_for_the_lead_stops_though_its_session_is_frozen(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it takes over later with another session."""
    monkeypatch.setattr(asynchronous_projections, "SILENCE_SECONDS_MAX", 1.0)
    async with projecting(catalog.dsn), CuttingProxy(catalog.dsn).running() as proxy:
        await caught_up(catalog.dsn)
        stop = asyncio.Event()
        waiting = asyncio.create_task(asynchronous_projections.run_projection(proxy.dsn, StatisticsProjection, stop))
        await asyncio.sleep(1.5)
        proxy.is_frozen = True
        await asyncio.sleep(1.5)
        stop.set()
        async with asyncio.timeout(8):
            await waiting
        proxy.is_frozen = False


async def test_a_silent_leader_is_replaced(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres ends the session of a frozen leader, and the next one continues from its position."""
    monkeypatch.setattr(asynchronous_projections, "LEADER_IDLE_SECONDS_MAX", 0.3)
    run = await CommandRun.on(catalog)
    with structlog.testing.capture_logs() as said:
        async with projecting(catalog.dsn):
            for step in EVERY_KIND[:6]:
                await run.step(step)
            await eventually(lambda: [each["event"] for each in said].count("projection_leader_started") > 2)
            await caught_up(catalog.dsn)
    assert rows(catalog.dsn, RECOUNT) == rows(catalog.dsn, ROWS)


@pytest.fixture
def management(catalog_server: CatalogServer) -> Iterator[Management]:
    with closing(Management(catalog_server.url)) as client:
        yield client


def test_the_route_returns_hours_newest_first_in_pages(catalog_server: CatalogServer, management: Management) -> None:
    """As in Lakekeeper: `timestamp` is the end of the hour. Our own members are additional."""
    warehouse_id = management.call_root("GET", "").json["warehouses"][0]["id"]
    address = f"/{warehouse_id}/statistics"
    empty = {"warehouse-ident": warehouse_id, "stats": [], "position": 0, "next-page-token": None}
    assert empty == management.call_root("GET", address).json
    client = RestClient(catalog_server.url, "demo")
    for _ in range(3):
        assert 200 == client.create_namespace(f"n{_}").status
    assert 200 == client.create_table(["n0"], "t").status
    assert 204 == client.call("DELETE", "/namespaces/n2").status
    client.close()
    spread_over_hours(catalog_server.dsn)
    with psycopg.connect(catalog_server.dsn, autocommit=True) as connection:
        name = psycopg.sql.Identifier(connection.info.dbname)
        connection.execute(psycopg.sql.SQL("alter database {} set timezone = 'Europe/Berlin'").format(name))
        connection.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'icecore-reads'")

    asyncio.run(fold_asynchronous(catalog_server.dsn))
    body = management.call_root("GET", address).json
    assert (warehouse_id, head(catalog_server.dsn), None) == (body["warehouse-ident"], body["position"], body["next-page-token"])
    newest, *_, oldest = body["stats"]
    assert {"number-of-tables": 1, "number-of-views": 0, "number-of-namespaces": 2, "number-of-commits": 0}.items() <= newest.items()
    assert [0, 0] == [oldest[f"number-of-{kind}"] for kind in ("tables", "views")]
    ends = [datetime.fromisoformat(each["timestamp"]) for each in body["stats"]]
    assert {timedelta(0)} == {end.utcoffset() for end in ends}
    assert ends == sorted(ends, reverse=True)
    for each, end in zip(body["stats"], ends, strict=True):
        assert end - timedelta(hours=1) <= datetime.fromisoformat(each["updated-at"]) < end
    pages: list[Any] = []
    token = ""
    while token is not None:
        page = management.call_root("GET", f"{address}?page_size=1&page_token={token}").json
        pages += page["stats"]
        token = page["next-page-token"]
    assert body["stats"] == pages


def test_an_operator_sees_the_hours_at_the_command_line(catalog_server: CatalogServer, management: Management) -> None:
    """Those that the server returns, the newest ones if their number is limited."""
    operator = operator_on(catalog_server.dsn)
    assert (0, "no statistics\n", "") == operator("warehouse", "statistics", "demo")
    with closing(RestClient(catalog_server.url, "demo")) as client:
        for name in ("a", "b", "c"):
            assert 200 == client.create_namespace(name).status
    spread_over_hours(catalog_server.dsn)
    asyncio.run(fold_asynchronous(catalog_server.dsn))
    with closing(Management(catalog_server.url)) as again:
        warehouse_id = again.call_root("GET", "").json["warehouses"][0]["id"]
        body = again.call_root("GET", f"/{warehouse_id}/statistics").json
    body.pop("next-page-token")
    assert len(body["stats"]) > 1
    assert body == read_json(operator, "warehouse", "statistics", "demo")
    assert body["stats"][:1] == read_json(operator, "warehouse", "statistics", "demo", "--limit", "1")["stats"]
    code, printed, _ = operator("warehouse", "statistics", "demo", "--limit", "1")
    end = datetime.fromisoformat(body["stats"][0]["timestamp"])
    assert (0, [f"{end:%Y-%m-%dT%H:%M:%SZ}", "0", "0", "3", "0"]) == (code, printed.splitlines()[1].split())


def test_the_route_refuses_what_it_cannot_mean(management: Management) -> None:
    """An unknown warehouse, another listing's token, invalid sizes, unknown parameters."""
    warehouse_id = management.call_root("GET", "").json["warehouses"][0]["id"]
    for missing in (str(uuid7()), "demo"):
        assert (404, "NoSuchWarehouseException") == management.call_root("GET", f"/{missing}/statistics").error
    made_up = page_token(listing_digest("statistics", warehouse_id), "last-tuesday")
    far = page_token(listing_digest("statistics", warehouse_id), "0001-01-01T00:00:00+14:00")
    other = page_token(listing_digest("statistics", str(uuid7())), "2026-01-01T00:00:00+00:00")
    tokens = [f"page_token={token}" for token in ("x", made_up, far, other)]
    for query in ("page_size=0", "page_size=x", "pageSize=1", *tokens):
        assert (400, "BadRequestException") == management.call_root("GET", f"/{warehouse_id}/statistics?{query}").error, query
