"""A deletion that has begun is completed by the next leader of the job, and the file cannot be registered."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
import structlog

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.leader_job import LeadershipLost
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables import delete_old_metadata_files
from icecore.commands.tables import register_table as register_module
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.delete_old_metadata_files import OldMetadataFilesJob
from icecore.commands.tables.register_table import register_table
from icecore.commands.tables.unregister_table import unregister_table
from icecore.commands.views.create_view import create_view
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, CreateView, RegisterTable, UnregisterTable
from icecore.domain.errors import BadRequest, NotFound
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.warehouse import SetWarehouseReadOnly
from icecore.projections import old_metadata_files
from icecore.storage.locations import StorageLocation
from icecore.storage.metadata_files import read_metadata
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.rest_client import SCHEMA, set_properties
from tests.integration.test_metadata_trimming import KEEP_ONE, local

NAMESPACE = NamespaceIdentifier(("a",))
TABLE = TabularIdentifier(NAMESPACE, "t")
VIEW_VERSION = {
    "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["a"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}  # fmt: skip


class SlowStore:
    """A store whose first deletion takes effect when the test says so, whatever became of the request.

    one_by_one -- it refuses pages, and deletes single files.
    """

    def __init__(self, store: Any, one_by_one: bool) -> None:
        self._store = store
        self._one_by_one = one_by_one
        self.asked, self.goes_on = asyncio.Event(), asyncio.Event()
        self.deletions: list[asyncio.Task[None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        if self._one_by_one and len(locations) > 1:
            raise BadRequest("one of them cannot be deleted")
        self.deletions.append(asyncio.create_task(self._delete(locations)))
        self.asked.set()
        await asyncio.shield(self.deletions[-1])

    async def _delete(self, locations: Sequence[StorageLocation]) -> None:
        await self.goes_on.wait()
        await self._store.delete(locations)


@dataclass
class Two:
    """Two processes of one catalog. `files` of the table `t` wait to be deleted."""

    catalogs: list[Application]
    warehouse: Warehouse
    dsn: str

    def pending(self) -> list[str]:
        with psycopg.connect(self.dsn) as connection:
            rows = connection.execute("select location from icecore.old_metadata_files where key <> '' order by key").fetchall()
        return [row[0] for row in rows]

    def current(self) -> str:
        """The current metadata file of the table `t`."""
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("select metadata_location from icecore.tables order by version desc limit 1").fetchone()
        assert row is not None
        return str(row[0])

    def logged(self) -> list[str]:
        """The metadata files in the current one's log."""
        return [entry["metadata-file"] for entry in orjson.loads(local(self.current()).read_bytes())["metadata-log"]]

    async def slow_store(self, monkeypatch: pytest.MonkeyPatch, *, one_by_one: bool) -> SlowStore:
        """The first process uses it from now on."""
        write = self.catalogs[0].commands
        slow = SlowStore(await write.store(self.warehouse), one_by_one)

        async def store(_: Warehouse) -> SlowStore:
            return slow

        monkeypatch.setattr(write, "store", store)
        return slow

    async def unregister(self) -> None:
        await unregister_table(self.catalogs[1].commands, context("unregisterTable"), self.warehouse, UnregisterTable(TABLE))

    async def register(self, location: str, name: str = "back", *, overwrite: bool = False) -> None:
        command = RegisterTable(NAMESPACE, name, location, overwrite)
        await register_table(self.catalogs[1].commands, context("registerTable"), self.warehouse, command)

    async def refuse_to_register(self, locations: list[str]) -> None:
        for location in locations:
            with pytest.raises(NotFound):
                await self.register(location)


@pytest.fixture
async def two(database: str, tmp_path: Path) -> AsyncIterator[Two]:
    async with AsyncExitStack() as opened:
        catalogs = [await opened.enter_async_context(opened_catalog(database, tmp_path / "warehouse")) for _ in range(2)]
        warehouse, write = await resolve_warehouse(catalogs[0].backends, PROJECT_ID, "demo"), catalogs[0].commands
        await create_namespace(write, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
        command = CreateTable(NAMESPACE, "t", None, SCHEMA, None, None, KEEP_ONE, stage_create=False)
        await create_table(write, context("createTable"), warehouse, command)
        for number in range(4):
            await commit_table(write, context("updateTable"), warehouse, CommitTable(TABLE, [], [set_properties(k=str(number))]))
        yield Two(catalogs, warehouse, database)


def end_leading(dsn: str) -> None:
    """Ends the leader's session, as a failover does. Its process continues."""
    ended = (
        "select pg_terminate_backend(pid, 5000) from pg_locks where locktype = 'advisory' and (classid::bigint << 32) | objid::bigint = %s"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert [(True,)] == connection.execute(ended, [OldMetadataFilesJob.LEADER_LOCK]).fetchall()


@pytest.mark.parametrize("one_by_one", [False, True])
async def test_a_file_is_not_registered_while_a_process_that_led_may_delete_it(
    two: Two, monkeypatch: pytest.MonkeyPatch, one_by_one: bool
) -> None:
    """The first leader loses the lead during a page. The table was dropped since, and a second process has completed the page."""
    slow, waiting = await two.slow_store(monkeypatch, one_by_one=one_by_one), two.pending()
    assert 3 == len(waiting)
    first = asyncio.create_task(OldMetadataFilesJob(two.catalogs[0].commands).run_once())
    await slow.asked.wait()
    end_leading(two.dsn)
    await two.unregister()
    assert 3 == await OldMetadataFilesJob(two.catalogs[1].commands).run_once()
    await two.refuse_to_register(waiting)
    slow.goes_on.set()
    await asyncio.gather(first, return_exceptions=True)
    assert ([], []) == (two.pending(), [location for location in waiting if local(location).exists()])


async def test_a_process_that_lost_its_leadership_may_lead_again_at_once(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store did not fail, so its warehouse is not paused, and the round ends."""
    slow, job = await two.slow_store(monkeypatch, one_by_one=False), OldMetadataFilesJob(two.catalogs[0].commands)
    first = asyncio.create_task(job.run_once())
    await slow.asked.wait()
    end_leading(two.dsn)
    slow.goes_on.set()
    with structlog.testing.capture_logs() as logged, pytest.raises(LeadershipLost):
        await first
    assert [] == [each for each in logged if each["event"] == "metadata_file_deletion_retrying"]
    assert 3 == await job.run_once()
    assert [] == two.pending()


async def test_a_file_is_not_registered_while_a_deletion_that_was_given_up_may_take_effect(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store exceeded the timeout, and may still execute the request."""
    slow, waiting = await two.slow_store(monkeypatch, one_by_one=False), two.pending()
    monkeypatch.setattr(delete_old_metadata_files, "DELETION_STORE_SECONDS_MAX", 0.05)
    assert 0 == await OldMetadataFilesJob(two.catalogs[0].commands).run_once()
    assert waiting == two.pending()
    await two.unregister()
    assert 3 == await OldMetadataFilesJob(two.catalogs[1].commands).run_once()
    await two.refuse_to_register(waiting)
    slow.goes_on.set()
    await asyncio.gather(*slow.deletions)


async def test_single_deletions_of_a_page_are_not_repeated(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a page ends between them: finished deletions are recorded, the rest waits."""
    slow, waiting = await two.slow_store(monkeypatch, one_by_one=True), two.pending()
    real, deleted = slow.delete, list[StorageLocation]()

    async def third_hangs(locations: Sequence[StorageLocation]) -> None:
        if len(deleted) < 2:
            slow.goes_on.set()
        else:
            slow.goes_on.clear()
        await real(locations)
        deleted.extend(locations)

    monkeypatch.setattr(slow, "delete", third_hangs)
    monkeypatch.setattr(delete_old_metadata_files, "DELETION_STORE_SECONDS_MAX", 1.0)
    assert 0 == await OldMetadataFilesJob(two.catalogs[0].commands).run_once()
    assert (2, waiting[2:]) == (len(deleted), two.pending())
    slow.goes_on.set()
    await asyncio.gather(*slow.deletions)


async def test_a_file_that_a_commit_removes_while_it_is_read_overwrites_nothing(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is in the log, and the file and its row are deleted, before the registration is decided."""
    job = OldMetadataFilesJob(two.catalogs[0].commands)
    assert 3 == await job.run_once()
    (logged,) = two.logged()
    reads: list[str] = []

    async def read_then_removed(store: Any, location: StorageLocation, reservation: Any) -> dict[str, Any]:
        document = await read_metadata(store, location, reservation)
        reads.append(location.text)
        await commit_table(two.catalogs[0].commands, context("updateTable"), two.warehouse, CommitTable(TABLE, [], [set_properties(k="5")]))
        assert 1 == await job.run_once()
        return document

    monkeypatch.setattr(register_module, "read_metadata", read_then_removed)
    with pytest.raises(NotFound):
        await two.register(logged, "t", overwrite=True)
    assert [logged] == reads
    assert local(two.current()).exists()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("right_key", [False, True])
@pytest.mark.parametrize("whose", ["a table's", "a view's", "its own"])
async def test_a_current_file_is_not_deleted_whatever_row_names_it(two: Two, whose: str, right_key: bool, begun: bool) -> None:
    """The row was not written by append: its table is live, and the file is another table's or its own."""
    write = two.catalogs[0].commands
    create = CreateTable(NAMESPACE, "other", None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(write, context("createTable"), two.warehouse, create)
    await create_view(write, context("createView"), two.warehouse, CreateView(NAMESPACE, "view", None, SCHEMA, VIEW_VERSION, {}))
    with psycopg.connect(two.dsn) as connection:
        current = {
            name: (object_id, location)
            for name, object_id, location in connection.execute(
                "select distinct on (name) name, table_id, metadata_location from icecore.tables order by name, version desc"
            ).fetchall()
            + connection.execute("select name, view_id, metadata_location from icecore.views").fetchall()
        }
        location = current[{"a table's": "other", "a view's": "view", "its own": "t"}[whose]][1]
        key = StorageLocation.parse(location).claim_key(two.warehouse.profile.storage_identity) if right_key else "x"
        connection.execute("delete from icecore.old_metadata_files where key <> ''")
        connection.execute(
            "insert into icecore.old_metadata_files values (%s, %s, %s, %s, %s)",
            [key, current["t"][0], two.warehouse.id, location, begun],
        )
    await OldMetadataFilesJob(write).run_once()
    assert local(location).exists()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("what", ["the last file of a table that is gone", "a data file"])
async def test_what_is_no_old_metadata_file_is_not_deleted_whatever_row_names_it(two: Two, what: str, begun: bool) -> None:
    """The row was written by the serving role: unregistering a table keeps its last metadata file."""
    location = two.current()
    if what == "a data file":
        location = f"{location.rsplit('/', 2)[0]}/data/x.parquet"
        local(location).parent.mkdir()
        local(location).write_text("rows")
    else:
        await two.unregister()
    key = StorageLocation.parse(location).claim_key(two.warehouse.profile.storage_identity)
    with psycopg.connect(two.dsn) as connection:
        connection.execute("delete from icecore.old_metadata_files where key <> ''")
        connection.execute(
            "insert into icecore.old_metadata_files select %s, table_id, warehouse_id, %s, %s from icecore.tables limit 1",
            [key, location, begun],
        )
    await OldMetadataFilesJob(two.catalogs[0].commands).run_once()
    assert local(location).exists()


async def test_a_begun_deletion_waits_while_another_object_claims_the_location(two: Two) -> None:
    """The table was dropped, and another was registered at its location. The file stays until the location is free."""
    waiting = two.pending()
    with psycopg.connect(two.dsn) as connection:
        connection.execute("update icecore.old_metadata_files set begun = true where location = %s", [waiting[0]])
    current = two.current()
    await two.unregister()
    await two.register(current)
    job = OldMetadataFilesJob(two.catalogs[0].commands)
    assert (2, 0) == (await job.run_once(), await job.run_once())
    assert waiting[:1] == two.pending()
    command = UnregisterTable(TabularIdentifier(NAMESPACE, "back"))
    await unregister_table(two.catalogs[1].commands, context("unregisterTable"), two.warehouse, command)
    with pytest.raises(NotFound):
        await two.register(waiting[0])
    assert 1 == await job.run_once()
    assert ([], [False, True, True]) == (two.pending(), [local(location).exists() for location in waiting])


async def test_a_warehouse_that_becomes_read_only_during_a_round_keeps_its_files(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round has found its pending files before."""
    pending_warehouses = old_metadata_files.pending_warehouses

    async def found_before(connection: Any, without: Any) -> Any:
        found = await pending_warehouses(connection, without)
        await change_warehouse(two.catalogs[1].commands, context("setWarehouseReadOnly"), two.warehouse, SetWarehouseReadOnly(True))
        return found

    pending = two.pending()
    assert pending
    with monkeypatch.context() as patched:
        patched.setattr(old_metadata_files, "pending_warehouses", found_before)
        assert 0 == await OldMetadataFilesJob(two.catalogs[0].commands).run_once()
    assert pending == two.pending()
    assert all(local(file).exists() for file in pending)
