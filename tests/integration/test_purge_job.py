"""The purge job during failures: a failing or slow store, table or leader affects no other and no later table."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
import structlog

from icecore.access.request_context import ANONYMOUS, RequestContext
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.clock import now_ms
from icecore.commands.execution.executor import CommandExecutor
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.projects.create_project import create_project
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.purge_tables import PURGES_OF_A_WAREHOUSE_MAX, PurgeJob
from icecore.commands.tables.register_table import register_table
from icecore.commands.tables.table_purge import DELETE_PAGE_FILES, PurgedFiles, TablePurge
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.compose import Application
from icecore.database.connection import connect
from icecore.database.connections import Connection
from icecore.database.named_sql import named_sql
from icecore.domain.byte_pieces import joined
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, DropTable, RegisterTable
from icecore.domain.errors import AlreadyExists, BadRequest, CatalogError, NotFound, ServiceUnavailable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.project import CreateProject
from icecore.domain.table import TableState
from icecore.domain.warehouse import SetWarehouseProtection
from icecore.projections.rebuild import rebuild
from icecore.storage.large_documents import DocumentReservation
from icecore.storage.locations import StorageLocation
from icecore.storage.manifest_protocol import MANIFEST
from icecore.storage.manifest_reader import STDERR_BYTES_MAX, ManifestReader, ManifestReaders, UnreadableManifest
from icecore.storage.object_store import ObjectStore
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog
from tests.fixtures.object_stores import S3_CREDENTIAL, OddS3Server, odd_s3_profile
from tests.fixtures.rest_client import SCHEMA, staged_create_updates
from tests.fixtures.snapshots import appended, data_files, manifest
from tests.integration.test_purge import files

NAMESPACE = NamespaceIdentifier(("a",))
SECONDS_MAX = 60.0


class GatedStore:
    """A store that a test delays: `held` is awaited after each page of deletes, `read` after each read."""

    def __init__(self, store: ObjectStore, held: Callable[[], Awaitable[None]] | None, read: Callable[[], Awaitable[None]] | None) -> None:
        self._store = store
        self._held = held
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        await self._store.delete(locations)
        if self._held is not None:
            await self._held()

    async def get(self, location: StorageLocation, **bounds: int) -> bytes:
        data = await self._store.get(location, **bounds)
        if self._read is not None:
            await self._read()
        return data


def gate(
    monkeypatch: pytest.MonkeyPatch,
    write: CommandExecutor,
    *,
    held: Callable[[], Awaitable[None]] | None = None,
    read: Callable[[], Awaitable[None]] | None = None,
) -> None:
    opened = write.store

    async def store(warehouse: Warehouse) -> GatedStore:
        return GatedStore(await opened(warehouse), held, read)

    monkeypatch.setattr(write, "store", store)


def wait_is_over(catalog: Application) -> None:
    """As if the pauses of failed purges had ended."""
    catalog.purge._pauses._failures.clear()
    catalog.commands.now_ms = lambda: now_ms() + 2 * int(SECONDS_MAX) * 1_000


class Point:
    """A point at which a task waits until the test releases it."""

    def __init__(self) -> None:
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.let_go.wait()


def named(name: str) -> TabularIdentifier:
    return TabularIdentifier(NAMESPACE, name)


async def the_warehouse(catalog: Application, name: str = "demo", project_id: UUID = PROJECT_ID) -> Warehouse:
    """With the namespace `a`."""
    warehouse = await resolve_warehouse(catalog.backends, project_id, name)
    with suppress(AlreadyExists):
        await create_namespace(catalog.commands, for_project(project_id, "createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
    return warehouse


def for_project(project_id: UUID, operation: str) -> RequestContext:
    return RequestContext(str(uuid4()), project_id, ANONYMOUS, operation)


async def a_table(catalog: Application, warehouse: Warehouse, name: str, folder: Path, files_count: int = 1) -> str:
    """Creates a table at `folder` with data files in a snapshot. Returns its metadata file."""
    command = CreateTable(NAMESPACE, name, f"file://{folder}", SCHEMA, None, None, {}, False)
    project_id = warehouse.project_id
    await create_table(catalog.commands, for_project(project_id, "createTable"), warehouse, command)
    updates = appended(folder, data_files(folder / "data", files_count))
    response = await commit_table(
        catalog.commands, for_project(project_id, "updateTable"), warehouse, CommitTable(named(name), [], updates)
    )
    assert response.body is not None
    location: str = orjson.loads(joined(response.body))["metadata-location"]
    return location


async def dropped(catalog: Application, warehouse: Warehouse, name: str) -> None:
    await drop_table(catalog.commands, for_project(warehouse.project_id, "dropTable"), warehouse, DropTable(named(name), True))


async def registered(catalog: Application, warehouse: Warehouse, location: str, *, overwrite: bool = False) -> None:
    await register_table(catalog.commands, context("registerTable"), warehouse, RegisterTable(NAMESPACE, "r", location, overwrite))


async def a_warehouse(catalog: Application, name: str, directory: Path, project_id: UUID = PROJECT_ID) -> Warehouse:
    await asyncio.to_thread(directory.mkdir)
    command = CreateWarehouse(name, {"type": "local", "directory": str(directory)})
    await create_warehouse(catalog.commands, for_project(project_id, "createWarehouse"), command)
    return await the_warehouse(catalog, name, project_id)


def staged_updates(folder: Path, location: str | None = None, properties: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The updates at the end of a staged create, for a table at `folder` by default."""
    return [
        *staged_create_updates(str(uuid4()), location or f"file://{folder}"),
        {"action": "set-properties", "updates": properties or {}},
    ]


async def test_the_next_purge_is_found_without_reading_those_that_ended(catalog: Application, database: str, tmp_path: Path) -> None:
    """So is what keeps a warehouse from being deleted. With the rows of 20,000 ended purges."""
    warehouse = await the_warehouse(catalog)
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "here")
    await dropped(catalog, warehouse, "t")
    parameters = {"without": [], "without_warehouses": [], "now_ms": 10**15, "warehouse_id": warehouse.id}
    statements = [named_sql("icecore.projections", "tasks.sql")["next_purge"]]
    statements += [named_sql("icecore.projections", "warehouse_content.sql")["content_kind"]]
    async with await connect(database) as connection:
        await connection.execute(ENDED_PURGES)
        await connection.execute("vacuum (analyze) icecore.tasks, icecore.tables, icecore.task_versions")
        for purged in (False, True):
            for statement in statements:
                cursor = await connection.execute(
                    statement.replace("select", "explain (analyze, buffers, format json) select", 1), parameters
                )
                ((plans,),) = await cursor.fetchall()
                assert plans[0]["Plan"]["Shared Hit Blocks"] + plans[0]["Plan"]["Shared Read Blocks"] < 60
            if not purged:
                assert 1 == await catalog.purge.run_once()


ENDED_PURGES = """
with ids as (select n, gen_random_uuid() as id from generate_series(1, 20000) n),
     copies as (insert into icecore.tasks
                select (jsonb_populate_record(t, jsonb_build_object('object_id', i.id, 'task_id', i.id, 'from_position', 0,
                                                                    'to_position', t.from_position, 'status', 'success'))).*
                from icecore.tasks t, ids i where t.queue = 'tabular_purge')
insert into icecore.tables
select (jsonb_populate_record(t, jsonb_build_object('table_id', i.id, 'event_id', gen_random_uuid(), 'version', t.version + added.version,
                                                    'status', added.status, 'position', t.position - 1 + added.version))).*
from icecore.tables t, ids i, (values (0, 'purging'), (1, 'purged')) as added(version, status)
where t.status = 'purging'
"""
"""Rows of purges that ended before the one that waits."""


async def test_a_location_being_purged_is_refused_before_files_are_read_or_written(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Register and create during a purge: neither touches a file. After the purge, the file is missing."""
    warehouse, folder = await the_warehouse(catalog), tmp_path / "warehouse" / "here"
    location = await a_table(catalog, warehouse, "t", folder)
    await dropped(catalog, warehouse, "t")
    point = Point()
    gate(monkeypatch, catalog.commands, held=point)
    purge = asyncio.create_task(catalog.purge.run_once())
    async with asyncio.timeout(SECONDS_MAX):
        await point.reached.wait()
    before = files(folder)

    async def never(*_: object) -> Any:
        raise AssertionError("a file was touched")

    with monkeypatch.context() as patched:
        patched.setattr(catalog.commands, "store", never)
        with pytest.raises(BadRequest, match="Location is already taken"):
            await registered(catalog, warehouse, location)
        command = CreateTable(NAMESPACE, "u", f"file://{folder}/below", SCHEMA, None, None, {}, False)
        with pytest.raises(BadRequest, match="Location is already taken"):
            await create_table(catalog.commands, context("createTable"), warehouse, command)
        command = CreateTable(NAMESPACE, "u", None, SCHEMA, None, None, {"write.data.path": f"file://{folder}/below"}, False)
        with pytest.raises(BadRequest, match="Location is already taken"):
            await create_table(catalog.commands, context("createTable"), warehouse, command)
        for place in ({"location": f"file://{folder}/below"}, {"properties": {"write.metadata.path": f"file://{folder}/below"}}):
            ended = CommitTable(named("u"), [{"type": "assert-create"}], staged_updates(tmp_path / "warehouse" / "free", **place))
            with pytest.raises(BadRequest, match="Location is already taken"):
                await commit_table(catalog.commands, context("updateTable"), warehouse, ended)
    assert before == files(folder)
    point.let_go.set()
    assert 1 == await purge
    assert set() == files(folder)
    with pytest.raises(NotFound):
        await registered(catalog, warehouse, location)


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "overwrite"])
async def test_a_registration_that_read_its_file_before_a_purge_ended_does_not_come_to_effect(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """The location is free when the file is read. Then another registration claims it, and its table is purged before the first is
    appended.
    """
    async with opened_catalog(database, tmp_path / "warehouse") as one, opened_catalog(database, tmp_path / "warehouse") as other:
        warehouse, folder = await the_warehouse(one), tmp_path / "warehouse" / "here"
        location = await a_table(one, warehouse, "t", folder)
        await drop_table(one.commands, context("dropTable"), warehouse, DropTable(named("t"), False))
        if overwrite:
            await a_table(one, warehouse, "r", tmp_path / "warehouse" / "there")
        point = Point()
        with monkeypatch.context() as patched:
            gate(patched, one.commands, read=point)
            first = asyncio.create_task(registered(one, warehouse, location, overwrite=overwrite))
            async with asyncio.timeout(SECONDS_MAX):
                await point.reached.wait()
            await register_table(other.commands, context("registerTable"), warehouse, RegisterTable(NAMESPACE, "s", location, False))
            await dropped(other, warehouse, "s")
            assert 1 == await other.purge.run_once()
            point.let_go.set()
            with pytest.raises(NotFound):
                await first


async def test_a_leader_that_stalled_deletes_nothing_of_a_later_table(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs after its first page and loses its connection. Another process purges, and a new table is created with the same files."""
    async with opened_catalog(database, tmp_path / "warehouse") as stalled, opened_catalog(database, tmp_path / "warehouse") as other:
        warehouse, folder = await the_warehouse(other), tmp_path / "warehouse" / "here"
        more_than_a_page = DELETE_PAGE_FILES + 10
        await a_table(other, warehouse, "t", folder, more_than_a_page)
        await dropped(other, warehouse, "t")
        # Everything in the process hangs, including what would notice the lost connection.
        monkeypatch.setattr("icecore.commands.tables.purge_tables._POLL_SECONDS", SECONDS_MAX)
        point = Point()
        gate(monkeypatch, stalled.commands, held=point)
        purge = asyncio.create_task(stalled.purge.run_once())
        async with asyncio.timeout(SECONDS_MAX):
            await point.reached.wait()
        async with other.backends.connection() as connection:
            end = "select pg_terminate_backend(pid, 10000) from pg_locks where locktype = 'advisory' and objid = %s and granted"
            await connection.execute(end, [PurgeJob.LEADER_LOCK & 0xFFFFFFFF])
        assert 1 == await other.purge.run_once()
        await a_table(other, warehouse, "u", folder, more_than_a_page)
        kept = files(folder)
        point.let_go.set()
        with pytest.raises(CatalogError):
            await purge
        assert kept == files(folder)


async def test_a_leader_beside_another_deletes_nothing_of_a_later_table(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler gave both processes the same session, and so the lock. Before each page the table's state is checked too."""
    monkeypatch.setattr("icecore.commands.tables.table_purge.DELETE_PAGE_FILES", 2)
    async with opened_catalog(database, tmp_path / "warehouse") as stalled, opened_catalog(database, tmp_path / "warehouse") as other:
        monkeypatch.setattr(other.purge, "LEADER_LOCK", PurgeJob.LEADER_LOCK + 1_000)
        warehouse, folder = await the_warehouse(other), tmp_path / "warehouse" / "here"
        await a_table(other, warehouse, "t", folder, 5)
        await dropped(other, warehouse, "t")
        point = Point()
        gate(monkeypatch, stalled.commands, held=point)
        purge = asyncio.create_task(stalled.purge.run_once())
        async with asyncio.timeout(SECONDS_MAX):
            await point.reached.wait()
        assert 1 == await other.purge.run_once()
        await a_table(other, warehouse, "u", folder, 5)
        kept = files(folder)
        point.let_go.set()
        with pytest.raises(CatalogError):
            await purge
        assert kept == files(folder)


async def test_a_store_that_hangs_or_fails_keeps_no_other_waiting(
    catalog: Application, tmp_path: Path, odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest tables have stores that refuse or do not respond. The others' files are deleted meanwhile."""
    monkeypatch.setattr("icecore.commands.tables.table_purge.PURGE_STORE_SECONDS_MAX", 2.0)
    odd_s3_server.status = 200
    catalog.commands.skip_storage_validation = True
    command = CreateWarehouse("odd", odd_s3_profile(odd_s3_server.endpoint), S3_CREDENTIAL)
    await create_warehouse(catalog.commands, context("createWarehouse"), command)
    odd = await the_warehouse(catalog, "odd")
    for name in ("t", "u", "v", "w"):
        await create_table(catalog.commands, context("createTable"), odd, CreateTable(NAMESPACE, name, None, SCHEMA, None, None, {}, False))
        await dropped(catalog, odd, name)
    warehouse, folder = await the_warehouse(catalog), tmp_path / "warehouse" / "here"
    await a_table(catalog, warehouse, "t", folder)
    await dropped(catalog, warehouse, "t")
    odd_s3_server.hang()
    assert 1 == await catalog.purge.run_once()
    assert set() == files(folder)


async def test_every_table_gets_its_turn_though_the_first_hundred_fail(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred and two older drops precede it, whose files the store refuses to delete, without a pause between attempts."""
    warehouse, base = await the_warehouse(catalog), tmp_path / "warehouse"
    failing = [f"t{number}" for number in range(102)]
    for name in failing:
        command = CreateTable(NAMESPACE, name, f"file://{base}/{name}", SCHEMA, None, None, {}, False)
        await create_table(catalog.commands, context("createTable"), warehouse, command)
        await dropped(catalog, warehouse, name)
    await a_table(catalog, warehouse, "last", base / "last")
    await dropped(catalog, warehouse, "last")
    opened = catalog.commands.store

    async def store(of: Warehouse) -> Any:
        return FailingStore(await opened(of), keeps=base / "last")

    monkeypatch.setattr(catalog.commands, "store", store)
    monkeypatch.setattr("icecore.commands.execution.retry_pauses.PAUSE_SECONDS_MIN", 0.0)
    purge = asyncio.create_task(catalog.purge.run_once())
    async with asyncio.timeout(SECONDS_MAX):
        while files(base / "last"):
            await asyncio.sleep(0.05)
    assert not purge.done()
    purge.cancel()
    await asyncio.gather(purge, return_exceptions=True)
    assert 102 == len(files(base))


async def test_a_fault_in_one_purge_is_logged_once_and_keeps_no_other_waiting(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error: the round continues, and the next one retries."""
    warehouse, base = await the_warehouse(catalog), tmp_path / "warehouse"
    for name in ("faulty", "sound"):
        await a_table(catalog, warehouse, name, base / name)
        await dropped(catalog, warehouse, name)
    opened = catalog.commands.store

    async def store(of: Warehouse) -> Any:
        return FailingStore(await opened(of), keeps=base / "sound", error=ZeroDivisionError("a fault"))

    monkeypatch.setattr("icecore.commands.execution.retry_pauses.PAUSE_SECONDS_MIN", 0.0)
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logged:
        patched.setattr(catalog.commands, "store", store)
        purge = asyncio.create_task(catalog.purge.run_once())
        async with asyncio.timeout(SECONDS_MAX):
            while not purge.done() and (files(base / "sound") or "purge_failed" not in {each["event"] for each in logged}):
                await asyncio.sleep(0.05)
        # It is retried without a pause meanwhile, and logged once.
        await asyncio.sleep(0.3)
        assert not purge.done()
    assert 1 == [each["event"] for each in logged].count("purge_failed")
    async with asyncio.timeout(SECONDS_MAX):
        assert 2 == await purge
    assert set() == files(base / "faulty")


class FailingStore:
    """A store that fails to delete outside one folder."""

    def __init__(self, store: ObjectStore, keeps: Path, error: Exception | None = None) -> None:
        self._store = store
        self._keeps = str(keeps)
        self._error = error or ServiceUnavailable("The store is away")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def delete(self, locations: Sequence[StorageLocation]) -> None:
        if not all(location.text.startswith(f"file://{self._keeps}/") for location in locations):
            raise self._error
        await self._store.delete(locations)


async def test_tables_of_every_project_are_purged(catalog: Application, tmp_path: Path) -> None:
    """Tables of another project's warehouse are purged too."""
    await create_project(catalog.commands, context("createProject"), CreateProject("another", UUID(int=7)))
    theirs = await a_warehouse(catalog, "theirs", tmp_path / "theirs", UUID(int=7))
    ours = await the_warehouse(catalog)
    for warehouse, folder in ((theirs, tmp_path / "theirs" / "here"), (ours, tmp_path / "warehouse" / "here")):
        await a_table(catalog, warehouse, "t", folder)
        await dropped(catalog, warehouse, "t")
    assert 2 == await catalog.purge.run_once()
    assert (set(), set()) == (files(tmp_path / "theirs"), files(tmp_path / "warehouse"))
    async with catalog.backends.connection() as connection:
        cursor = await connection.execute("select project_id from icecore.events where topic = 'table.purged.v1' order by 1")
        assert [(PROJECT_ID,), (UUID(int=7),)] == await cursor.fetchall()


@pytest.mark.parametrize("module", ["storage/__init__.py", "orjson.py"])
async def test_no_code_of_the_working_directory_is_run(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """The folder contains modules with the names of ours or a library's."""
    foreign = tmp_path / "foreign" / module
    foreign.parent.mkdir(parents=True)
    ran = tmp_path / "ran"
    foreign.write_text(f"open({str(ran)!r}, 'w')")
    warehouse = await the_warehouse(catalog)
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "here")
    await dropped(catalog, warehouse, "t")
    monkeypatch.chdir(tmp_path / "foreign")
    assert (1, False) == (await catalog.purge.run_once(), ran.exists())
    assert set() == files(tmp_path / "warehouse")


async def test_the_tables_of_a_round_share_the_processes_that_read_manifests(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process for each table purged concurrently. None is left after the round."""
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def counted(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    warehouse, tables = await the_warehouse(catalog), 2 * PURGES_OF_A_WAREHOUSE_MAX + 1
    for number in range(tables):
        await a_table(catalog, warehouse, f"t{number}", tmp_path / "warehouse" / f"here{number}")
        await dropped(catalog, warehouse, f"t{number}")
    assert tables == await catalog.purge.run_once()
    assert set() == files(tmp_path / "warehouse")
    assert 0 < len(started) <= PURGES_OF_A_WAREHOUSE_MAX
    assert None not in {process.returncode for process in started}


async def test_a_process_remembers_no_names_of_the_table_before(tmp_path: Path) -> None:
    """The same process returns them again."""
    read = []
    readers = ManifestReaders()
    for _ in range(2):
        async with readers.one() as reader:
            read.append((id(reader), [page async for page in reader.pages(MANIFEST, a_manifest(tmp_path))]))
    await readers.close()
    assert read[0] == read[1]
    assert [["file:///a", "file:///b"]] == read[0][1]


@pytest.mark.parametrize("fault", ["unreadable", "grown", "ended", "failed"])
async def test_a_process_with_a_fault_reads_for_no_other_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """It failed to read a file, uses too much memory, or was killed; or the purge failed at any point."""
    if fault == "grown":
        program = tmp_path / "python"
        code = "import icecore.storage.manifest_process as process; process.GROWN_BYTES_MAX = -1; process.main()"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -P -c '{code}'\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
    used = []
    readers = ManifestReaders()
    for _ in range(2):
        with suppress(ServiceUnavailable):
            async with readers.one() as reader:
                used.append(reader)
                assert [["file:///a", "file:///b"]] == [page async for page in reader.pages(MANIFEST, a_manifest(tmp_path))]
                if fault == "unreadable":
                    with pytest.raises(UnreadableManifest):
                        await anext(reader.pages(MANIFEST, b"no manifest"))
                elif fault == "ended":
                    assert reader._process is not None
                    reader._process.kill()
                elif fault == "failed":
                    raise ServiceUnavailable("The store is away")
    await readers.close()
    assert used[0] is not used[1]


def a_manifest(tmp_path: Path) -> bytes:
    manifest(tmp_path / "m.avro", ["file:///a", "file:///b"])
    return (tmp_path / "m.avro").read_bytes()


async def test_what_the_process_that_reads_manifests_says_at_its_end_is_logged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The end of its standard error, limited in size."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x >&2\necho no such module >&2\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with structlog.testing.capture_logs() as logged, pytest.raises(ServiceUnavailable):
        await anext(ManifestReader().pages(MANIFEST, b""))
    (said,) = [each["stderr"] for each in logged if each["event"] == "manifest_process_errors"]
    assert said.endswith("no such module\n")
    assert STDERR_BYTES_MAX == len(said)


async def test_a_purge_whose_event_is_not_taken_waits(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read models are rebuilt right before it, and append refuses it. The next attempt waits, and completes it."""
    warehouse = await the_warehouse(catalog)
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "here")
    await dropped(catalog, warehouse, "t")
    read, reads = catalog.purge._read, 0

    async def rebuilt(table_id: UUID, reservation: DocumentReservation, **options: bool) -> tuple[TableState, int] | None:
        nonlocal reads
        reads += 1
        found = await read(table_id, reservation, **options)
        # First for its files, then for the event.
        if reads == 2:
            await rebuild(catalog.dsn)
        return found

    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logged:
        patched.setattr(catalog.purge, "_read", rebuilt)
        patched.setattr("icecore.commands.execution.retry_pauses.PAUSE_SECONDS_MIN", SECONDS_MAX)
        async with asyncio.timeout(SECONDS_MAX / 2):
            assert 0 == await catalog.purge.run_once()
    assert ["generation"] == [each["outcome"] for each in logged if each["event"] == "table_purged"]
    wait_is_over(catalog)
    assert 1 == await catalog.purge.run_once()


async def test_a_job_whose_session_ended_can_be_stopped(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of its last statement must not replace the cancellation."""
    job, working = PurgeJob(catalog.commands), asyncio.Event()

    async def work(leading: Connection) -> int:
        async with catalog.backends.connection() as other:
            await other.execute("select pg_terminate_backend(%s)", (leading.info.backend_pid,))
        working.set()
        await asyncio.Event().wait()
        return 1

    monkeypatch.setattr(job, "run_once", lambda: job.lead(work))
    job.start()
    async with asyncio.timeout(SECONDS_MAX):
        await working.wait()
        await job.close()


async def test_a_change_of_the_warehouse_during_a_purge_does_not_begin_it_again(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event has the number of files that were deleted; a second run would find none."""
    warehouse = await the_warehouse(catalog)
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "here")
    await dropped(catalog, warehouse, "t")
    run, runs = TablePurge.run, 0

    async def changed_meanwhile(purge: TablePurge) -> PurgedFiles:
        nonlocal runs
        runs += 1
        files = await run(purge)
        await change_warehouse(catalog.commands, context("setWarehouseProtection"), warehouse, SetWarehouseProtection(True))
        return files

    monkeypatch.setattr(TablePurge, "run", changed_meanwhile)
    assert (1, 1) == (await catalog.purge.run_once(), runs)
    async with catalog.backends.connection() as connection:
        query = "select state from icecore.events where topic = 'table.purged.v1'"
        ((state,),) = await (await connection.execute(query)).fetchall()
    assert 5 == orjson.loads(state)["files-deleted"]
