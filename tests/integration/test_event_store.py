"""The eventsourcing library on our log: its own conformance cases through `append`, its repository, notification log and projections."""

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any
from uuid import UUID

import psycopg
import pytest
from eventsourcing import cryptography
from eventsourcing.application import AggregateNotFoundError
from eventsourcing.persistence import IntegrityError, ProgrammingError, StoredEvent, Tracking
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore, PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL, Identifier
from uuid_utils.compat import uuid7

from commands.event_store import IcecoreApplication, IcecoreFactory, IcecoreRecorder, LogEvent, environment
from domain.events import NamespaceCreated, NamespaceDropped, NamespacePropertiesChanged, TableCreated, WarehouseCreated
from domain.namespace import NamespaceState
from domain.table import TableState
from icecore.compose import Catalog
from projections.verify import verify
from tests.fixtures.command_runs import EVERY_KIND, CommandRun
from tests.integration.test_append import table as table_command

# The shipped cases import a cipher, which recorders have none of; the library has it twice, and the other one's package is installed.
sys.modules.setdefault("eventsourcing.cipher", cryptography)
conformance = importlib.import_module("eventsourcing.tests.persistence")

# Cases the library ships that are not about a log of an application.
DO_NOT_APPLY = {
    "AggregateRecorderTestCase": "a recorder without positions, whose inserts answer None: snapshots, which read models replace",
    "TrackingRecorderTestCase": "projections' own checkpoints: the library's stock recorder, of which nothing is ours",
    "ProcessRecorderTestCase": "events and a checkpoint in one transaction: an application that writes what it follows, ours does not",
    "InfrastructureFactoryTestCase": "settings for recorders, ciphers and compressors we do not have; the log has one form",
    "TranscoderTestCase": "types of Python wrapped in JSON: our events are plain JSON objects (domain/events.py)",
    "RecorderTestCase": "the base of the others: no case of its own",
}


class FromOne(IcecoreRecorder):
    """Two of the cases number streams from 0; ours begin at 1, which a check in the table says."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        return super().insert_events([replace(e, originator_version=e.originator_version + 1) for e in stored_events], **kwargs)


class OnOurLog:
    """Gives the library's cases a recorder on a fresh schema."""

    recorder_class: type[IcecoreRecorder] = IcecoreRecorder

    @pytest.fixture(autouse=True)
    def _recorder(self, database: str) -> Iterator[None]:
        factory = IcecoreFactory(environment(database) | {"POSTGRES_POOL_SIZE": "20"})
        self.opened = self.recorder_class(factory.datastore, events_table_name="events")
        yield
        factory.close()

    def create_recorder(self) -> IcecoreRecorder:
        return self.opened


class TestApplicationRecorder(OnOurLog, conformance.ApplicationRecorderTestCase):
    """Inserting, selecting, notifications, and subscribing."""

    test_concurrent_no_conflicts = None  # type: ignore[assignment]  # run below, from version 1
    test_concurrent_throughput = None  # type: ignore[assignment]

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderFromOne(OnOurLog, conformance.ApplicationRecorderTestCase):
    """Writers side by side."""

    recorder_class = FromOne
    test_insert_select = None  # type: ignore[assignment]
    test_performance = None  # type: ignore[assignment]


class TestNonInterleavingNotificationIDs(OnOurLog, conformance.NonInterleavingNotificationIDsBaseCase):
    """The positions of one insert stand together."""

    recorder_class = FromOne


def test_every_case_the_library_ships_is_run_or_named_with_a_reason() -> None:
    """A new version of the library may bring new ones."""
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
        # A case that is set to None in one class is run in another.
        assert tests == {test for case in ours if issubclass(case, base) for test in tests if getattr(case, test) is not None}


@pytest.fixture
def application(database: str) -> Iterator[IcecoreApplication]:
    """The library's application on a fresh log."""
    with IcecoreApplication(env=environment(database)) as opened:
        yield opened


def test_the_librarys_own_insert_is_shut_out(database: str) -> None:
    """It knows nothing of the envelope, and would append without the lock, the chain and the rows."""
    stock = IcecoreFactory(environment(database))
    recorder = PostgresApplicationRecorder(stock.datastore, events_table_name="events")
    with pytest.raises(IntegrityError, match="null value in column"):
        recorder.insert_events([StoredEvent(uuid7(), 1, "topic", b"{}")])
    stock.close()
    with psycopg.connect(database) as connection:
        assert (0,) == connection.execute("select count(*) from icecore.events").fetchone()


async def test_states_of_every_stream_at_every_version(catalog: Catalog) -> None:
    """The repository's `version=` reads fold to what the read models hold."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND:
        await run.step(step)
    with psycopg.connect(catalog.dsn) as connection:
        streams = connection.execute("select originator_id, max(originator_version) from icecore.events group by 1").fetchall()
        heads = connection.execute("select table_id, version, status, metadata_location from icecore.tables").fetchall()
    assert len(heads) > 10
    with IcecoreApplication(env=environment(catalog.dsn)) as application:
        for table_id, version, status, metadata_location in heads:
            state = application.state(table_id, version)
            assert isinstance(state, TableState)
            assert (version, status, metadata_location) == (state.version, state.status, state.metadata_location)
        assert len(streams) > len({table_id for table_id, *_ in heads})
        for stream, newest in streams:
            assert [*range(1, newest + 1)] == [application.state(stream, version).version for version in range(1, newest + 1)]
            assert application.state(stream) == application.state(stream, newest)
            assert newest == application.state(stream).version
        for table_id in {table_id for table_id, *_ in heads}:
            found = await catalog.commands.resolver.table_by_id(table_id).read()
            assert found is not None
            folded = application.state(table_id)
            assert isinstance(folded, TableState)
            assert found[0].document.value == folded.document.value
            assert replace(found[0], document=folded.document) == folded
        with pytest.raises(AggregateNotFoundError):
            application.state(uuid7())


async def test_what_the_library_appends_has_rows_and_claims(application: IcecoreApplication, database: str) -> None:
    """`save` of our events goes through `append`: everything verifies, and the rules hold."""
    warehouse_id, namespace_id = uuid7(), uuid7()
    created = LogEvent(warehouse_id, 1, WarehouseCreated("w", "w", {"type": "local", "directory": "/w"}, None, False))
    below = LogEvent(namespace_id, 1, NamespaceCreated(warehouse_id, "a", "a", {}))
    changed = LogEvent(namespace_id, 2, NamespacePropertiesChanged({"k": "v"}, []))
    recordings = application.save(created, actor="tool")  # type: ignore[arg-type]  # our events are no aggregates
    assert [1] == [recording.notification.id for recording in recordings]
    application.save(below, changed, warehouse_id=warehouse_id)  # type: ignore[arg-type]
    assert [] == (await verify(database)).differences
    state = application.state(namespace_id)
    assert isinstance(state, NamespaceState)
    assert ({"k": "v"}, {}) == (state.properties, application.state(namespace_id, 1).properties)  # type: ignore[union-attr]
    with psycopg.connect(database) as connection:
        assert ("tool",) == connection.execute("select actor from icecore.events where notification_id = 1").fetchone()
    twin = LogEvent(uuid7(), 1, NamespaceCreated(warehouse_id, "A", "a", {}))
    with pytest.raises(IntegrityError, match="claim"):
        application.save(twin, warehouse_id=warehouse_id)  # type: ignore[arg-type]
    orphan = LogEvent(uuid7(), 1, NamespaceCreated(uuid7(), "b", "b", {}))
    with pytest.raises(IntegrityError, match="parent"):
        application.save(orphan, warehouse_id=warehouse_id)  # type: ignore[arg-type]
    table = LogEvent(uuid7(), 1, _table_created(namespace_id))
    application.save(table, warehouse_id=warehouse_id)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError, match="not_empty"):
        application.save(LogEvent(namespace_id, 3, NamespaceDropped()))  # type: ignore[arg-type]
    assert [] == (await verify(database)).differences


def test_a_version_that_is_taken_or_skipped_is_refused(application: IcecoreApplication) -> None:
    """For our events and for others."""
    warehouse_id = uuid7()
    created = LogEvent(warehouse_id, 1, WarehouseCreated("w", "w", {}, None, False))
    application.save(created)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError):
        application.save(created)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError):
        application.save(LogEvent(uuid7(), 2, NamespacePropertiesChanged({}, [])), warehouse_id=warehouse_id)  # type: ignore[arg-type]
    other = StoredEvent(uuid7(), 1, "other.v1", b"{}")
    application.recorder.insert_events([other])
    for wrong in (other, replace(other, originator_version=3), StoredEvent(uuid7(), 2, "other.v1", b"{}")):
        with pytest.raises(IntegrityError):
            application.recorder.insert_events([wrong])
    with pytest.raises(ProgrammingError):
        application.recorder.insert_events([StoredEvent(uuid7(), 1, "other.v1", b"{}"), StoredEvent(uuid7(), 1, "table.purged.v1", b"{}")])
    # What follows is taken, behind one event and behind two.
    for version in (2, 3):
        application.recorder.insert_events([replace(other, originator_version=version)])
    assert 4 == application.recorder.max_notification_id()


async def test_the_notification_log_is_the_log(catalog: Catalog) -> None:
    """Sections of notifications, which decode to our events."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:6]:
        await run.step(step)
    with IcecoreApplication(env=environment(catalog.dsn)) as application:
        section = application.notification_log["1,10"]
        assert [1, 2, 3, 4, 5, 6, 7] == [notification.id for notification in section.items]
        decoded = [application.mapper.to_domain_event(notification) for notification in section.items]
    with psycopg.connect(catalog.dsn) as connection:
        logged = connection.execute(
            "select originator_id, originator_version, topic from icecore.events order by notification_id"
        ).fetchall()
    assert all(isinstance(each, LogEvent) for each in decoded)
    assert logged == [(each.originator_id, each.originator_version, each.event.TOPIC) for each in decoded]  # type: ignore[union-attr]
    assert isinstance(decoded[0].event, WarehouseCreated)  # type: ignore[union-attr]


class CountsRecorder(PostgresTrackingRecorder):
    """A view of the library's kind: how often each topic occurred, with its checkpoint in the same transaction."""

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
    """A stock projection over our log."""

    @singledispatchmethod
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        self.view.count(domain_event.event.TOPIC, tracking)


async def test_a_stock_projection_runs_over_our_log(catalog: Catalog) -> None:
    """Over what is there and over what comes, each event once, from its checkpoint on after a restart."""
    run = await CommandRun.on(catalog)
    half = len(EVERY_KIND) // 2
    for part in (EVERY_KIND[:half], EVERY_KIND[half:]):
        with ProjectionRunner(
            application_class=IcecoreApplication, projection_class=Counts, view_class=CountsRecorder, env=environment(catalog.dsn)
        ) as runner:
            for step in part:
                await run.step(step)
            runner.wait(runner.app.recorder.max_notification_id(), timeout=20)
            counts = runner.projection.view.counts()
            with psycopg.connect(catalog.dsn) as connection:
                expected = dict(connection.execute("select topic, count(*) from icecore.events group by 1").fetchall())
            assert expected == counts


def _table_created(namespace_id: UUID) -> TableCreated:
    _, state = table_command("t")
    return TableCreated(namespace_id, "t", "t", state.location_keys[0], state.metadata_location, state.document.value, False)
