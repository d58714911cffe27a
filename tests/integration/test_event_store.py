"""The eventsourcing library on our log: its test cases, notification log, subscriptions and projections."""

import importlib
import inspect
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from itertools import islice
from typing import Any, cast
from uuid import UUID

import orjson
import psycopg
import pytest
from eventsourcing import cryptography
from eventsourcing.persistence import IntegrityError, StoredEvent, Tracking
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore, PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.utils import Environment
from psycopg.sql import SQL, Identifier
from uuid_utils.compat import uuid7

from icecore.commands.execution.append_request import AppendRequest
from icecore.compose import Application
from icecore.database.named_sql import named_sql
from icecore.domain.events import WarehouseCreated, decode
from icecore.domain.recorded import RecordedEvent
from icecore.log.event_store import BATCH_BYTES_MAX, LogApplication, LogFactory, LogRecorder, LogSubscription, environment
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import EVERY_KIND, CommandRun

# The library's cases import a cipher that recorders do not use; the package of the other implementation is installed.
sys.modules.setdefault("eventsourcing.cipher", cryptography)
conformance = importlib.import_module("eventsourcing.tests.persistence")

APPEND = named_sql("icecore.commands.execution", "committer.sql")["append"]

# The library's cases that are not about an application's log.
DO_NOT_APPLY = {
    "AggregateRecorderTestCase": "a recorder without positions, whose inserts return None: snapshots, which read models replace",
    "TrackingRecorderTestCase": "projections' own checkpoints: the library's stock recorder, of which nothing is ours",
    "ProcessRecorderTestCase": "events and a checkpoint in one transaction: an application that writes what it follows, ours does not",
    "InfrastructureFactoryTestCase": "settings for recorders, ciphers and compressors we do not have; the log has one form",
    "TranscoderTestCase": "types of Python wrapped in JSON: our events are plain JSON objects (domain/events.py)",
    "RecorderTestCase": "the base of the others: no case of its own",
}


class AppendingRecorder(LogRecorder):
    """Inserts the cases' events with `icecore.append`."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        if not stored_events:
            return None
        command = AppendRequest(context("conformance")).to_json([])
        first: dict[UUID | str, int] = {}
        for stored in stored_events:
            first.setdefault(stored.originator_id, stored.originator_version)
        with self.datastore.get_connection() as connection:
            heads = []
            for stream_id, version in first.items():
                row = connection.execute(
                    "select event_id from icecore.events where originator_id = %s and originator_version = %s", (stream_id, version - 1)
                ).fetchone()
                heads.append((stream_id, None if row is None else row["event_id"]))
            events = [
                (stored.originator_id, stored.originator_version, stored.topic, number, uuid7(), UUID(int=0))
                for number, stored in enumerate(stored_events, start=1)
            ]
            commands = orjson.dumps([command | {"expected_heads": heads, "events": events}]).decode()
            blobs = [stored.state for stored in stored_events]
            row = connection.execute(APPEND, {"commands": commands, "blobs": blobs}, binary=True).fetchone()
        assert row is not None
        if row["outcome"] != "appended":
            raise IntegrityError(row["detail"])
        last = row["position"]
        return [*range(last - len(stored_events) + 1, last + 1)]


class FromOne(AppendingRecorder):
    """Two of the cases number streams from 0. Ours begin at 1, as a check constraint requires."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        return super().insert_events([replace(e, originator_version=e.originator_version + 1) for e in stored_events], **kwargs)


class OnOurLog:
    """Runs the library's cases with a recorder on a new schema."""

    recorder_class: type[AppendingRecorder] = AppendingRecorder

    @pytest.fixture(autouse=True)
    def _recorder(self, database: str) -> Iterator[None]:
        factory = LogFactory(Environment("", environment(database) | {"POSTGRES_POOL_SIZE": "20"}))
        self.opened = self.recorder_class(factory.datastore, events_table_name="events")
        yield
        factory.close()

    def create_recorder(self) -> AppendingRecorder:
        return self.opened


class TestApplicationRecorder(OnOurLog, conformance.ApplicationRecorderTestCase):  # type: ignore[name-defined]
    """Inserting, selecting, notifications, and subscribing."""

    test_concurrent_no_conflicts = None  # type: ignore[assignment]  # run below, from version 1
    test_concurrent_throughput = None  # type: ignore[assignment]

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderFromOne(OnOurLog, conformance.ApplicationRecorderTestCase):  # type: ignore[name-defined]
    """Concurrent writers."""

    recorder_class = FromOne
    test_insert_select = None  # type: ignore[assignment]
    test_performance = None  # type: ignore[assignment]


class TestNonInterleavingNotificationIDs(OnOurLog, conformance.NonInterleavingNotificationIDsBaseCase):  # type: ignore[name-defined]
    """The positions of one insert are consecutive."""

    recorder_class = FromOne


def test_every_case_the_library_ships_is_run_or_named_with_a_reason() -> None:
    """A new version of the library may have new cases."""
    shipped = {
        name
        for name, case in vars(conformance).items()
        if inspect.isclass(case) and case.__module__ == conformance.__name__ and name.endswith(("TestCase", "BaseCase"))
    }
    ours = [case for case in globals().values() if inspect.isclass(case) and issubclass(case, OnOurLog) and case is not OnOurLog]
    run = {base.__name__ for case in ours for base in case.__mro__} & (shipped - set(DO_NOT_APPLY))
    assert shipped == run | set(DO_NOT_APPLY)
    for name in run:
        base = getattr(conformance, name)
        tests = {test for test in dir(base) if test.startswith("test")}
        assert tests
        # A case that is None in one class is run in another.
        assert tests == {test for case in ours if issubclass(case, base) for test in tests if getattr(case, test) is not None}


def test_the_librarys_own_insert_is_shut_out(database: str) -> None:
    """It would append without the envelope, the lock, the chain and the rows."""
    stock = LogFactory(Environment("", environment(database)))
    recorder = PostgresApplicationRecorder(stock.datastore, events_table_name="events")
    with pytest.raises(IntegrityError, match="null value in column"):
        recorder.insert_events([StoredEvent(uuid7(), 1, "topic", b"{}")])
    stock.close()
    with psycopg.connect(database) as connection:
        assert (0,) == connection.execute("select count(*) from icecore.events").fetchone()


async def test_the_notification_log_is_the_log(catalog: Application) -> None:
    """Sections of notifications, which are the events with their envelopes."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    with LogApplication(env=environment(catalog.dsn)) as application:
        section = application.notification_log["1,10"]
        assert [1, 2, 3, 4, 5, 6, 7] == [notification.id for notification in section.items]
        read = [cast(RecordedEvent, application.mapper.to_domain_event(notification)) for notification in section.items]
    with psycopg.connect(catalog.dsn) as connection:
        logged = connection.execute(
            "select originator_id, originator_version, topic, warehouse_id, recorded_at, hash from icecore.events order by notification_id"
        ).fetchall()
    assert logged == [(each.stream_id, each.version, each.topic, each.warehouse_id, each.recorded_at, each.hash) for each in read]
    assert isinstance(decode(read[0].topic, read[0].data), WarehouseCreated)


def test_an_append_without_a_notification_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append between the subscription's first read and its LISTEN, which the library alone would notice only at the next one."""
    monkeypatch.setattr(LogSubscription, "_listen", lambda self: None)
    factory = LogFactory(Environment("", environment(database)))
    recorder = AppendingRecorder(factory.datastore, events_table_name="events")
    with recorder.subscribe(0) as subscription:
        time.sleep(0.2)
        recorder.insert_events([StoredEvent(uuid7(), 1, "late.v1", b"{}")])
        found = threading.Thread(target=lambda: next(subscription), daemon=True)
        found.start()
        found.join(5)
        assert not found.is_alive()
    factory.close()


def test_large_events_come_in_small_batches_and_none_is_left_behind(database: str) -> None:
    """A batch with fewer events than requested is not the end of the log. An event larger than a batch is a batch of its own."""
    factory = LogFactory(Environment("", environment(database) | {"POSTGRES_POOL_SIZE": "4"}))
    recorder = AppendingRecorder(factory.datastore, events_table_name="events")
    stream, state, larger = uuid7(), bytes(BATCH_BYTES_MAX // 4 * 3), bytes(BATCH_BYTES_MAX + 1)
    for version in range(1, 8):
        recorder.insert_events([StoredEvent(stream, version, "large.v1", {3: larger, 7: b"small"}.get(version, state))])
    assert [[1], [3]] == [[each.id for each in recorder.select_notifications(first, 500)] for first in (1, 3)]
    assert [6, 7] == [each.id for each in recorder.select_notifications(5, 500, inclusive_of_start=False)]
    with recorder.subscribe(0) as subscription:
        assert [*range(1, 8)] == [each.id for each in islice(subscription, 7)]
    factory.close()


class CountsRecorder(PostgresTrackingRecorder):
    """A view of the library: the number of events of each topic, with its checkpoint in the same transaction."""

    def __init__(self, datastore: PostgresDatastore, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self._table = (Identifier(datastore.schema), Identifier("topic_counts"))
        self.sql_create_statements.append(
            SQL("create table if not exists {}.{} (topic text primary key, events bigint not null)").format(*self._table)
        )

    def count(self, topic: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                SQL("insert into {}.{} as c values (%s, 1) on conflict (topic) do update set events = c.events + 1").format(*self._table),
                (topic,),
            )

    def counts(self) -> dict[str, int]:
        with self.datastore.cursor() as cursor:
            rows = cursor.execute(SQL("select topic, events from {}.{}").format(*self._table)).fetchall()
        return {row["topic"]: row["events"] for row in rows}


class Counts(Projection[CountsRecorder]):
    """A projection of the library over our log."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        self.view.count(domain_event.topic, tracking)


async def test_a_stock_projection_runs_over_our_log(catalog: Application) -> None:
    """Over existing and new events, each once, continuing at its checkpoint after a restart."""
    run = await CommandRun.on(catalog)
    half = len(EVERY_KIND) // 2
    for part in (EVERY_KIND[:half], EVERY_KIND[half:]):
        with ProjectionRunner(
            application_class=LogApplication,
            projection_class=Counts,
            view_class=CountsRecorder,
            env=environment(catalog.dsn) | {"CREATE_TABLE": "yes", "POSTGRES_MAX_OVERFLOW": "3"},
        ) as runner:
            for step in part:
                await run.step(step)
            runner.wait(runner.app.recorder.max_notification_id(), timeout=20)
            counts = runner.projection.view.counts()
            with psycopg.connect(catalog.dsn) as connection:
                expected = dict(connection.execute("select topic, count(*) from icecore.events group by 1").fetchall())
            assert expected == counts
