"""An undrop reserves memory for large metadata while it reads it, and none while it waits for a store."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.decision_writer import DecisionWriter
from icecore.commands.execution.resolver import OutdatedRead
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.namespaces.undrop_namespace import undrop_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tabulars import needed_files
from icecore.commands.tabulars.snapshot_files import FoundFiles, SnapshotFiles
from icecore.commands.tabulars.undrop_tabulars import undrop_tabulars
from icecore.commands.views.create_view import create_view
from icecore.commands.views.drop_view import drop_view
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import (
    CommitTable,
    CreateTable,
    CreateView,
    DropNamespace,
    DropView,
    UndropNamespace,
    UndropTabulars,
    UndropTarget,
)
from icecore.domain.errors import BadRequest, FilesMissing
from icecore.domain.warehouse import SetWarehousePurgeDefault
from icecore.projections import names, soft_deleted, tables
from icecore.storage.large_documents import LARGE_BYTES_MIN
from tests.fixtures.catalog import PROJECT_ID, context
from tests.fixtures.clocks import clocks_behind
from tests.fixtures.rest_client import SCHEMA, set_properties, view_version
from tests.fixtures.snapshots import snapshot_updates
from tests.integration.test_purge_job import NAMESPACE, Point, a_table, dropped, named, the_warehouse
from tests.integration.test_tasks import soft_deleting

SECONDS_MAX = 30.0
Undrop = Callable[..., Awaitable[Any]]


async def undrop_of(catalog: Application, warehouse: Warehouse, kind: str) -> Undrop:
    """Drops the table `t`, or its namespace, and returns what undrops it."""
    async with catalog.backends.connection() as connection:
        namespace_id = await names.find_namespace(connection, warehouse.name_lookup, NAMESPACE)
    if kind == "namespace":
        await drop_namespace(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(NAMESPACE, recursive=True))
        return lambda force=False: undrop_namespace(
            catalog.commands, context("undropNamespace"), warehouse, UndropNamespace(namespace_id, force)
        )
    await dropped(catalog, warehouse, "t")
    async with catalog.backends.connection() as connection:
        (found,) = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    targets = [UndropTarget("table", found.object_id)]
    return lambda force=False: undrop_tabulars(catalog.commands, context("undropTabulars"), warehouse, UndropTabulars(targets, force))


async def dropped_small(catalog: Application, tmp_path: Path, kind: str) -> tuple[Warehouse, Undrop]:
    """A table with one data file, which is dropped, or its namespace. Returns the warehouse and what undrops it."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    return warehouse, await undrop_of(catalog, warehouse, kind)


@pytest.fixture(params=["table", "namespace"])
async def undrop_large(request: pytest.FixtureRequest, catalog: Application, tmp_path: Path) -> Undrop:
    """The undrop of a table with large properties, or of its namespace."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    updates = [{"action": "set-properties", "updates": {"large": "x" * (LARGE_BYTES_MIN + 1)}}]
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(named("t"), [], updates))
    return await undrop_of(catalog, warehouse, request.param)


@pytest.mark.parametrize("step", ["missing_among", "find_snapshot_files"])
async def test_others_use_the_memory_while_files_are_looked_for(
    undrop_large: Undrop, catalog: Application, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """All of it, while the store does not respond. The undrop waits for memory again before it reads the metadata to decide."""
    point, look = Point(), getattr(needed_files, step)

    async def slow(*given: Any) -> Any:
        await point()
        return await look(*given)

    monkeypatch.setattr(needed_files, step, slow)
    async with asyncio.timeout(SECONDS_MAX):
        running = asyncio.ensure_future(undrop_large())
        await point.reached.wait()
        async with catalog.backends.large_documents.reservation() as reservation:
            await reservation.reserve_all()
            point.let_go.set()
            await asyncio.sleep(1.0)
            assert not running.done()
        assert 204 == (await running).status


async def test_no_memory_is_held_while_files_are_looked_for_again(
    undrop_large: Undrop, catalog: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a conflict the undrop is decided again, and the earlier attempt has reserved memory."""
    append, look = DecisionWriter.append, needed_files.find_snapshot_files
    attempts: list[int] = []

    async def outdated_at_first(*given: Any, **named: Any) -> Any:
        if len(attempts) == 1:
            raise OutdatedRead
        return await append(*given, **named)

    async def looked(*given: Any) -> Any:
        attempts.append(catalog.backends.large_documents._bytes_in_use)
        return await look(*given)

    monkeypatch.setattr(DecisionWriter, "append", outdated_at_first)
    monkeypatch.setattr(needed_files, "find_snapshot_files", looked)
    await undrop_large()
    assert [0, 0] == attempts


async def test_a_check_of_files_that_takes_long_is_no_conflict(
    undrop_large: Undrop, catalog: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the warehouse changes meanwhile, the undrop is decided once more, although its time is over."""
    monkeypatch.setattr(catalog.commands, "_retry_seconds_max", 0.0)
    look = needed_files.find_snapshot_files
    changed = list[Any]()

    async def changed_meanwhile(*given: Any) -> Any:
        if not changed:
            warehouse = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
            command = SetWarehousePurgeDefault(purge=True)
            changed.append(await change_warehouse(catalog.commands, context("setWarehousePurgeDefault"), warehouse, command))
        return await look(*given)

    monkeypatch.setattr(needed_files, "find_snapshot_files", changed_meanwhile)
    assert 204 == (await undrop_large()).status
    assert changed


@pytest.mark.parametrize("kind", ["table", "namespace"])
async def test_what_is_dropped_again_during_the_check_is_checked_again(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By force undropped, and dropped after a file was lost: nothing is undropped on the result of the first check."""
    warehouse, undrop_it = await dropped_small(catalog, tmp_path, kind)
    look = needed_files.find_snapshot_files
    missing = list[int]()

    async def dropped_again(*given: Any) -> FoundFiles:
        found = await look(*given)
        missing.append(found.missing_count)
        if len(missing) == 1:
            await undrop_it(force=True)
            (tmp_path / "warehouse" / "t" / "data" / "00000.parquet").unlink()
            await undrop_of(catalog, warehouse, kind)
        return found

    monkeypatch.setattr(needed_files, "find_snapshot_files", dropped_again)
    with pytest.raises(FilesMissing):
        await undrop_it()
    assert [0, 1] == missing


@pytest.mark.parametrize("kind", ["table", "namespace"])
async def test_repetitions_that_waited_read_no_manifests(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """If the first request has undropped the object meanwhile. The next one may begin before that is in the log."""
    _, undrop_it = await dropped_small(catalog, tmp_path, kind)
    look, looks = needed_files.find_snapshot_files, list[Any]()

    async def counted(*given: Any) -> Any:
        looks.append(given)
        return await look(*given)

    monkeypatch.setattr(needed_files, "find_snapshot_files", counted)
    async with asyncio.timeout(SECONDS_MAX):
        responses = await asyncio.gather(*(undrop_it() for _ in range(5)))
    assert [204] * 5 == [response.status for response in responses]
    assert 1 <= len(looks) <= 2


async def test_what_leaves_the_document_as_it_is_reads_heads(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undrop and an expiry: a table's lists may be hundreds of megabytes."""
    warehouse, undrop_table = await dropped_small(catalog, tmp_path, "table")

    async def never(*_: Any) -> Any:
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(tables, "read_state_within", never)
        assert 204 == (await undrop_table()).status
    with clocks_behind(catalog.commands, 7_200_000):
        await dropped(catalog, warehouse, "t")
    with monkeypatch.context() as patched:
        patched.setattr(tables, "read_state_within", never)
        assert 1 == await catalog.soft_deletion.run_once()


async def test_memory_is_reserved_for_a_large_snapshot(catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of format version 1 that names its manifests itself, also if memory was reserved for the rest of the metadata. So many are not
    looked for as are beyond a limit in memory, and the log record says so.
    """
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    properties = {"format-version": "1", "large": "x" * (LARGE_BYTES_MIN + 1)}
    create = CreateTable(NAMESPACE, "t", None, SCHEMA, None, None, properties, False)
    await create_table(catalog.commands, context("createTable"), warehouse, create)
    updates = snapshot_updates("")
    snapshot = updates[0]["snapshot"]
    del snapshot["manifest-list"], snapshot["sequence-number"]
    snapshot["manifests"] = [f"file://{tmp_path}/warehouse/{number:0100}.avro" for number in range(15_000)]
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(named("t"), [], updates))
    undrop_table = await undrop_of(catalog, warehouse, "table")
    given: list[SnapshotFiles] = []
    reserved: list[int] = []
    read_snapshots = tables.read_snapshots

    async def read(*of: Any) -> Any:
        reserved.append(catalog.backends.large_documents._bytes_in_use)
        return await read_snapshots(*of)

    monkeypatch.setattr(tables, "read_snapshots", read)

    async def looked(_: object, snapshots: Sequence[SnapshotFiles]) -> FoundFiles:
        assert 0 == catalog.backends.large_documents._bytes_in_use
        given.extend(snapshots)
        return FoundFiles()

    monkeypatch.setattr(needed_files, "find_snapshot_files", looked)
    with structlog.testing.capture_logs() as logged:
        async with catalog.backends.large_documents.reservation() as reservation:
            await reservation.reserve_all()
            running = asyncio.ensure_future(undrop_table())
            await asyncio.sleep(1.0)
            assert not given
        await running
    (found,) = given
    assert reserved[0] > len("".join(snapshot["manifests"])) > LARGE_BYTES_MIN
    length = len(snapshot["manifests"][0])
    assert needed_files.SNAPSHOT_MANIFESTS_LENGTH_MAX // length == len(found.manifests)
    assert ["undrop_checked_in_part"] == [each["event"] for each in logged if each["event"].startswith("undrop")]


async def test_the_manifests_that_snapshots_name_are_limited_for_all_tables_together(
    catalog: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree may have hundreds of tables, and the names of all are in memory at a time."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    manifests = [f"file://{tmp_path}/warehouse/{number}.avro" for number in range(8)]
    for name in ("t", "u"):
        create = CreateTable(NAMESPACE, name, None, SCHEMA, None, None, {"format-version": "1"}, False)
        await create_table(catalog.commands, context("createTable"), warehouse, create)
        updates = snapshot_updates("")
        del updates[0]["snapshot"]["manifest-list"], updates[0]["snapshot"]["sequence-number"]
        updates[0]["snapshot"]["manifests"] = manifests
        await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(named(name), [], updates))
    undrop_tree = await undrop_of(catalog, warehouse, "namespace")
    given: list[SnapshotFiles] = []

    async def looked(_: object, snapshots: Sequence[SnapshotFiles]) -> FoundFiles:
        given.extend(snapshots)
        return FoundFiles()

    monkeypatch.setattr(needed_files, "find_snapshot_files", looked)
    monkeypatch.setattr(needed_files, "SNAPSHOT_MANIFESTS_LENGTH_MAX", 10 * len(manifests[0]))
    with structlog.testing.capture_logs() as logged:
        await undrop_tree()
    assert [8, 2] == [len(each.manifests) for each in given]
    assert 1 == [each["event"] for each in logged].count("undrop_checked_in_part")


async def dropped_view(catalog: Application, warehouse: Warehouse, name: str, **properties: str) -> UndropTarget:
    """Creates a view and drops it. Returns the target of its undrop."""
    view = CreateView(NAMESPACE, name, None, SCHEMA, view_version("select 1"), properties)
    await create_view(catalog.commands, context("createView"), warehouse, view)
    await drop_view(catalog.commands, context("dropView"), warehouse, DropView(named(name)))
    async with catalog.backends.connection() as connection:
        found = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    return next(UndropTarget("view", each.object_id) for each in found if each.name == name)


async def test_views_that_are_too_large_together_are_undropped_one_by_one(catalog: Application) -> None:
    """The refusal says why. A single one may be larger than the limit."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    targets = [await dropped_view(catalog, warehouse, name) for name in ("v", "w")]
    catalog.backends.large_documents.bytes_max = 100
    with pytest.raises(BadRequest, match="Invalid targets: what must be read of their metadata is larger than 100 bytes together"):
        await undrop_tabulars(catalog.commands, context("undropTabulars"), warehouse, UndropTabulars(targets))
    for target in targets:
        undropped = await undrop_tabulars(catalog.commands, context("undropTabulars"), warehouse, UndropTabulars([target]))
        assert 204 == undropped.status


async def test_the_undrop_of_a_large_view_that_waits_for_memory_delays_no_other_command(catalog: Application, tmp_path: Path) -> None:
    """The commands of its other targets, which it would delay if it waited in their queues."""
    warehouse = await soft_deleting(catalog, await the_warehouse(catalog))
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    target = await dropped_view(catalog, warehouse, "v", large="x" * (LARGE_BYTES_MIN + 1))
    async with catalog.backends.connection() as connection:
        live_id = await names.find_table(connection, warehouse.name_lookup, named("t"))
    targets = UndropTabulars([UndropTarget("table", live_id), target])
    commit = CommitTable(named("t"), [], [set_properties(k="v")])
    async with catalog.backends.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        running = asyncio.ensure_future(undrop_tabulars(catalog.commands, context("undropTabulars"), warehouse, targets))
        await asyncio.sleep(1.0)
        assert 200 == (await commit_table(catalog.commands, context("updateTable"), warehouse, commit)).status
        assert not running.done()
    assert 204 == (await running).status
