"""Limits of an undrop's look for files: requests, files, time and memory, shared by the tables of one undrop; and processes."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import orjson
import pytest

from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tabulars import needed_files, snapshot_files, undrop_check_limit
from icecore.commands.tabulars.snapshot_files import FoundFiles, SnapshotFiles, _Share, _TableFiles, find_snapshot_files
from icecore.commands.tabulars.undrop_check_limit import UNDROP_CHECKS_MAX
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateTable, DropTable
from icecore.domain.errors import ServiceUnavailable
from icecore.projections import soft_deleted
from icecore.storage.locations import StorageLocation
from icecore.storage.store_errors import store_unavailable
from tests.fixtures.catalog import context
from tests.fixtures.object_stores import OddS3Server, OpenedStore
from tests.fixtures.rest_client import SCHEMA, set_properties
from tests.integration.test_purge_job import NAMESPACE, a_table, dropped, named, the_warehouse
from tests.integration.test_purge_locations import number, sized
from tests.integration.test_soft_deletion import undrop
from tests.integration.test_tasks import soft_deleting

SECONDS_MAX = 60.0


class CountingStore:
    """A store that counts its requests by kind. lists -- whether the credential permits listings; pause -- seconds before each response."""

    def __init__(self, opened: OpenedStore, *, lists: bool = True, pause: float = 0.0) -> None:
        self._store = opened.store
        self._lists = lists
        self._pause = pause
        self.requests = {"get": 0, "exists": 0, "list": 0}

    async def get(self, location: StorageLocation, **bounds: int) -> bytes:
        self.requests["get"] += 1
        await asyncio.sleep(self._pause)
        return await self._store.get(location, **bounds)

    async def exists(self, location: StorageLocation, *, on_loop: bool = False) -> bool:
        self.requests["exists"] += 1
        await asyncio.sleep(self._pause)
        return await self._store.exists(location)

    async def list_files(self, location: StorageLocation) -> AsyncGenerator[list[str], None]:
        if not self._lists:
            raise store_unavailable(location, "it rejects the warehouse's credential")
        async for page in self._store.list_files(location):
            self.requests["list"] += 1
            await asyncio.sleep(self._pause)
            yield page


async def look(store: Any, *tables: SnapshotFiles) -> FoundFiles:
    async with asyncio.timeout(SECONDS_MAX):
        return await find_snapshot_files(store, tables)


def avro(fields: list[dict[str, Any]], records: Iterable[bytes], count: int) -> bytes:
    """An Avro file of one block that is not compressed."""
    schema = orjson.dumps({"type": "record", "name": "r", "fields": fields})
    members = sized(b"avro.schema") + sized(schema) + sized(b"avro.codec") + sized(b"null")
    return b"Obj\x01" + number(2) + members + number(0) + bytes(16) + number(count) + sized(b"".join(records)) + bytes(16)


def manifest_of(names: Sequence[str]) -> bytes:
    """A manifest with only the columns that are read."""
    data_file = {"type": "record", "name": "r2", "fields": [{"name": "file_path", "type": "string", "field-id": 100}]}
    fields = [{"name": "status", "type": "int", "field-id": 0}, {"name": "data_file", "type": data_file, "field-id": 2}]
    return avro(fields, (number(1) + sized(name.encode()) for name in names), len(names))


def list_of(names: Sequence[str]) -> bytes:
    """A manifest list with only the column that is read."""
    return avro([{"name": "manifest_path", "type": "string", "field-id": 500}], (sized(name.encode()) for name in names), len(names))


async def stored(opened: OpenedStore, table: str, names: Sequence[str], *, existing: int | None = None, per_manifest: int = 10_000) -> Any:
    """The current snapshot of a table with these data files below its folder, the first `existing` of which exist."""
    base = opened.profile.base.child(table)
    locations = [base.child("data", name) for name in names]
    folder = Path("/", *base.segments, "data")
    if base.scheme == "file":
        await asyncio.to_thread(folder.mkdir, parents=True)
    for start in range(0, len(locations[:existing]), 50):
        together = locations[:existing][start : start + 50]
        if base.scheme == "file":
            await asyncio.to_thread(lambda: [Path("/", *each.segments).touch() for each in together])  # noqa: B023 - awaited here
        else:
            await asyncio.gather(*(opened.store.put_new(each, b"") for each in together))
    manifests = []
    for start in range(0, len(names), per_manifest):
        manifests.append(base.child("metadata", f"m{start}.avro"))
        await opened.store.put_new(manifests[-1], manifest_of([each.text for each in locations[start : start + per_manifest]]))
    listed = base.child("metadata", "snap.avro")
    await opened.store.put_new(listed, list_of([each.text for each in manifests]))
    return SnapshotFiles(listed.text, (), (base.text,))


def names(count: int) -> list[str]:
    return [f"{each:06}.parquet" for each in range(count)]


async def test_few_files_are_asked_for_and_many_are_listed(s3_store: OpenedStore) -> None:
    """On an S3 server: ten requests for ten files, and one for sixty. What the listing does not contain is asked for."""
    few, many = await stored(s3_store, "few", names(10)), await stored(s3_store, "many", names(60))
    for table, requests in ((few, {"get": 2, "exists": 10, "list": 0}), (many, {"get": 2, "exists": 0, "list": 1})):
        store = CountingStore(s3_store)
        found = await look(store, table)
        assert (0, True) == (found.missing_count, found.complete)
        assert requests == store.requests
    partly = await stored(s3_store, "partly", names(60), existing=57)
    store = CountingStore(s3_store)
    found = await look(store, partly)
    assert {"get": 2, "exists": 3, "list": 1} == store.requests
    assert [f"{s3_store.profile.base}/partly/data/0000{each}.parquet" for each in (57, 58, 59)] == sorted(found.missing)
    elsewhere = SnapshotFiles(few.manifest_list, (), (f"{s3_store.profile.base}/other",))
    assert 0 == (await look(CountingStore(s3_store), elsewhere)).missing_count


async def test_a_folder_that_cannot_be_listed_does_not_hide_the_others(local_store: OpenedStore) -> None:
    """A table may name one outside the warehouse before its own. Its own is listed nevertheless: one request instead of sixty."""
    table = await stored(local_store, "t", names(60))
    store = CountingStore(local_store)
    found = await look(store, replace(table, folders=("s3://elsewhere/x", *table.folders)))
    assert (0, True) == (found.missing_count, found.complete)
    assert {"get": 2, "exists": 0, "list": 1} == store.requests


async def test_the_folders_that_a_table_s_properties_name_are_listed_too(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under any of their names. Otherwise each file in them would be asked for."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    folder, data, older = (tmp_path / "warehouse" / each for each in ("t", "data", "older"))
    await a_table(catalog, warehouse, "t", folder)
    update = set_properties({"write.data.path": f"file://{data}", "write.object-storage.path": f"file://{older}"})
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(named("t"), [], [update]))
    await dropped(catalog, warehouse, "t")
    async with catalog.backends.connection() as connection:
        (found,) = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    given: list[SnapshotFiles] = []

    async def looked(_: object, snapshots: Sequence[SnapshotFiles]) -> FoundFiles:
        given.extend(snapshots)
        return FoundFiles()

    monkeypatch.setattr(needed_files, "find_snapshot_files", looked)
    await undrop(catalog, warehouse, found.object_id)
    assert [(f"file://{folder}", f"file://{data}", f"file://{older}")] == [each.folders for each in given]


async def test_a_credential_that_may_not_list_is_no_obstacle(local_store: OpenedStore) -> None:
    """Each file is asked for."""
    table = await stored(local_store, "t", names(60), existing=59)
    store = CountingStore(local_store, lists=False)
    found = await look(store, table)
    assert (1, 60, True) == (found.missing_count, store.requests["exists"], found.complete)


@pytest.mark.parametrize("lists", [True, False])
async def test_requests_are_limited(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch, lists: bool) -> None:
    """For all tables together. What is beyond the limit is not looked for."""
    monkeypatch.setattr(snapshot_files, "REQUESTS_MAX", 40)
    monkeypatch.setattr(snapshot_files, "_FILES_UNLISTED_MAX", 0)
    tables = [await stored(local_store, f"t{each}", names(30), existing=29, per_manifest=3) for each in range(4)]
    store = CountingStore(local_store, lists=lists)
    found = await look(store, *tables)
    assert sum(store.requests.values()) <= 40
    assert not found.complete
    monkeypatch.setattr(snapshot_files, "REQUESTS_MAX", 400)
    assert (4, True) == ((found := await look(store, *tables)).missing_count, found.complete)


async def test_a_large_table_leaves_the_others_their_share(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first uses all of its own, and the files of the last are looked for."""
    monkeypatch.setattr(snapshot_files, "FILES_MAX", 90)
    large = await stored(local_store, "large", names(500), existing=499)
    small = [await stored(local_store, f"t{each}", names(20), existing=19) for each in range(2)]
    found = await look(CountingStore(local_store), large, *small)
    assert (2, False, 90 >= found.checked) == (found.missing_count, found.complete, True)
    monkeypatch.setattr(snapshot_files, "FILES_MAX", 5_000)
    assert 3 == (await look(CountingStore(local_store), large, *small)).missing_count


@pytest.mark.parametrize("limit", ["FILES_MAX", "REQUESTS_MAX"])
async def test_what_a_table_does_not_use_is_left_for_later_ones(
    local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """A third of 30 is too little for the last table, which has 18 files."""
    monkeypatch.setattr(snapshot_files, limit, 30)
    monkeypatch.setattr(snapshot_files, "_FILES_UNLISTED_MAX", 100)
    monkeypatch.setattr(snapshot_files, "TABLES_CONCURRENT_MAX", 1)
    small = [await stored(local_store, f"t{each}", names(1)) for each in range(2)]
    last = await stored(local_store, "last", names(18), existing=17)
    found = await look(CountingStore(local_store), *small, last)
    assert (1, True) == (found.missing_count, found.complete)


async def test_files_before_the_limit_are_looked_for(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the limit ends a table of few files."""
    monkeypatch.setattr(snapshot_files, "FILES_MAX", 4)
    table = await stored(local_store, "t", names(8), existing=3)
    found = await look(CountingStore(local_store), table)
    assert (1, 4, False) == (found.missing_count, found.checked, found.complete)


async def test_time_is_limited(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow store ends the look in time, and not with an error."""
    monkeypatch.setattr(snapshot_files, "SNAPSHOT_FILES_SECONDS_MAX", 5.0)
    tables = [await stored(local_store, f"t{each}", names(5)) for each in range(20)]
    began = time.monotonic()
    found = await look(CountingStore(local_store, pause=1.0), *tables)
    assert not found.complete
    assert time.monotonic() - began < 15.0
    assert found.checked < 100


async def test_a_store_that_does_not_respond_is_an_error(odd_store: OpenedStore, odd_s3_server: OddS3Server, monkeypatch: Any) -> None:
    """Nothing is undropped unseen because the store hangs."""
    monkeypatch.setattr(snapshot_files, "STORE_SECONDS_MAX", 1.0)
    odd_s3_server.hang()
    began = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="does not respond"):
        await look(odd_store.store, SnapshotFiles("s3://bucket/t/l.avro", (), ("s3://bucket/t",)))
    assert time.monotonic() - began < 15.0


@pytest.mark.parametrize("stalled", ["list", "exists"])
async def test_a_store_that_stops_responding_is_an_error(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch, stalled: str) -> None:
    """While the files are listed, or asked for."""
    monkeypatch.setattr(snapshot_files, "STORE_SECONDS_MAX", 0.5)
    table = await stored(local_store, "t", names(20 if stalled == "list" else 5))
    store = CountingStore(local_store)

    async def never(*_: object) -> bool:
        await asyncio.Event().wait()
        return True

    async def no_page(*_: object) -> AsyncGenerator[list[str], None]:
        await asyncio.Event().wait()
        yield []

    monkeypatch.setattr(store, "exists" if stalled == "exists" else "list_files", never if stalled == "exists" else no_page)
    with pytest.raises(ServiceUnavailable, match="does not respond"):
        await look(store, table)


async def test_memory_is_limited_though_the_table_is_large(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """30,000 files need less than 20 MB, and a request for each thousand of them. No more are listed than are kept."""
    table = await stored(local_store, "t", names(30_000))
    store = CountingStore(local_store)
    tracemalloc.start()
    found = await look(store, table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (0, 30_000, True) == (found.missing_count, found.checked, found.complete)
    assert peak < 20_000_000, peak
    assert {"get": 4, "exists": 0, "list": 31} == store.requests
    monkeypatch.setattr(snapshot_files, "LISTED_FILES_MAX", 2_000)
    monkeypatch.setattr(snapshot_files, "REQUESTS_MAX", 500)
    found = await look(store := CountingStore(local_store), table)
    assert (0, 2, False) == (found.missing_count, store.requests["list"], found.complete)
    assert sum(store.requests.values()) <= 500


@pytest.mark.parametrize("hostile", ["manifests", "files", "elsewhere"])
async def test_a_hostile_snapshot_ends_at_the_limits(local_store: OpenedStore, hostile: str) -> None:
    """A list of 300,000 manifests or a manifest of 300,000 files that do not exist, or that are outside the warehouse."""
    base = local_store.profile.base
    root = "file:///elsewhere" if hostile == "elsewhere" else f"{base}/t/data"
    many = [f"{root}/{each:09}" for each in range(300_000)]
    listed = [base.child("t", "m.avro").text]
    if hostile != "manifests":
        await local_store.store.put_new(base.child("t", "m.avro"), manifest_of(many))
    await local_store.store.put_new(base.child("t", "l.avro"), list_of(many if hostile == "manifests" else listed))
    store = CountingStore(local_store)
    found = await look(store, SnapshotFiles(base.child("t", "l.avro").text, (), (base.child("t").text,)))
    assert not found.complete
    assert 10 >= len(found.missing)
    if hostile == "elsewhere":
        assert 0 == found.missing_count
    else:
        assert snapshot_files.MISSING_FILES_MAX <= found.missing_count <= snapshot_files.MISSING_FILES_MAX + 10
    assert sum(store.requests.values()) <= snapshot_files.REQUESTS_MAX


async def test_no_process_is_left(local_store: OpenedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two for one undrop, however many tables it has; none after it, also after a damaged manifest or a cancellation."""
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def counted(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    tables = [await stored(local_store, f"t{each}", names(5)) for each in range(6)]
    await look(CountingStore(local_store), *tables)
    assert snapshot_files.TABLES_CONCURRENT_MAX == len(started)
    await local_store.store.put_new(local_store.profile.base.child("bad.avro"), b"no Avro")
    damaged = SnapshotFiles(local_store.profile.base.child("bad.avro").text, (), ())
    assert 1 == (await look(CountingStore(local_store), damaged)).unreadable_count
    looking = asyncio.create_task(look(CountingStore(local_store, pause=0.5), *tables))
    await asyncio.sleep(1.0)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    assert snapshot_files.TABLES_CONCURRENT_MAX + 1 < len(started)
    assert None not in {process.returncode for process in started}


async def test_undrops_that_read_manifests_wait_for_each_other(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one project; one is refused after a while, and those of tables without a snapshot do not wait."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    await create_table(
        catalog.commands, context("createTable"), warehouse, CreateTable(NAMESPACE, "empty", None, SCHEMA, None, None, {}, False)
    )
    await dropped(catalog, warehouse, "t")
    await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(named("empty"), False))
    async with catalog.backends.connection() as connection:
        found = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    ids = {each.name: each.object_id for each in found}
    monkeypatch.setattr(undrop_check_limit, "CHECK_WAIT_SECONDS_MAX", 0.2)
    async with catalog.commands.undrop_check_limit.acquired(warehouse.project_id):
        with pytest.raises(ServiceUnavailable, match="Too many undrops"):
            await undrop(catalog, warehouse, ids["t"])
        await undrop(catalog, warehouse, ids["empty"])
    async with catalog.commands.undrop_check_limit.acquired(uuid4()):
        await undrop(catalog, warehouse, ids["t"])


async def test_a_failed_check_frees_its_place(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After more failures than there are places, an undrop succeeds."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    await dropped(catalog, warehouse, "t")
    async with catalog.backends.connection() as connection:
        (found,) = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)

    async def fail(*_: object) -> Any:
        raise ServiceUnavailable("the store does not respond")

    with monkeypatch.context() as patched:
        patched.setattr(needed_files, "find_snapshot_files", fail)
        for _ in range(UNDROP_CHECKS_MAX + 1):
            with pytest.raises(ServiceUnavailable, match="does not respond"):
                await undrop(catalog, warehouse, found.object_id)
    await undrop(catalog, warehouse, found.object_id)


async def test_other_requests_run_while_a_page_of_names_is_parsed() -> None:
    """A page has a thousand names, of thousands of characters if somebody wants that."""
    turns, found = 0, FoundFiles()
    files = _TableFiles(cast(Any, None), cast(Any, None), SnapshotFiles(None, (), ()), _Share(10, 10_000), found)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await files._check_files(["no location"] * 1_000)
    task.cancel()
    assert (20, 0, False) == (turns, found.checked, found.complete)
