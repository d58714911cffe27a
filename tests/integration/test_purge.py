"""Purges delete files only on request, after the event, in a job that can be stopped at any moment."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.retry_pauses import PAUSE_SECONDS_MIN
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, DropTable
from icecore.domain.errors import BadRequest
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.project import PROJECT_ID_DEFAULT
from icecore.projections.verify import verify
from tests.fixtures.catalog import context
from tests.fixtures.rest_client import SCHEMA, RestClient
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.fixtures.snapshots import appended, data_files
from tests.fixtures.waiting import wait_for

NAMESPACE = NamespaceIdentifier(("a",))
FILES = 2_500


def a_table_with_data(client: RestClient, warehouse: FreshWarehouse, name: str = "t") -> Path:
    """Creates a table at `here` with a snapshot of two data files. Returns its folder."""
    assert 200 == client.create_table(["a"], name, location=f"{warehouse.base}/here").status
    folder = warehouse.directory / "here"
    assert 200 == client.commit(["a"], name, *appended(folder, data_files(folder / "data", 2))).status
    return folder


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("query", ["", "?purgeRequested=", "?purgeRequested=false", "?purgeRequested=False"])
def test_without_being_asked_no_file_goes(client: RestClient, warehouse: FreshWarehouse, query: str) -> None:
    """Name and location are free at once. A later table at the location does not cause their deletion either."""
    folder = a_table_with_data(client, warehouse)
    before = files(folder)
    assert 204 == client.drop_table(["a"], "t", query).status
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status
    threading.Event().wait(1.3)  # Longer than the job's pause.
    assert before <= files(folder)


@pytest.mark.parametrize("query", ["?purgeRequested=true", "?purgeRequested=True"])
def test_when_asked_the_files_go_and_the_location_is_free(
    client: RestClient, shared_catalog: SharedCatalog, warehouse: FreshWarehouse, query: str
) -> None:
    """Metadata and data. The event has the number of files. A file beside the table stays, and one in its location that it does not refer
    to.
    """
    folder = a_table_with_data(client, warehouse)
    orphan = folder / "data" / "orphan.parquet"
    beside = warehouse.directory / "here-too.parquet"
    beside.write_bytes(b"PAR1")
    count = len(files(folder))
    orphan.write_bytes(b"PAR1")
    dropped = client.drop_table(["a"], "t", query)
    assert 204 == dropped.status
    assert (404, "NoSuchTableException") == client.load_table(["a"], "t").error
    wait_for(lambda: {orphan} == files(folder), 30)
    assert beside.is_file()
    purged = """
        select convert_from(state, 'UTF8')::json->>'files-deleted' from icecore.events
        where topic = 'table.purged.v1' and warehouse_id = %s"""
    wait_for(lambda: shared_catalog.rows(purged, warehouse.id))
    assert [(str(count),)] == shared_catalog.rows(purged, warehouse.id)
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/here").status


def test_an_odd_purge_request_is_refused(client: RestClient, warehouse: FreshWarehouse) -> None:
    """400, and the table is not dropped."""
    client.create_table(["a"], "t")
    for text in ("yes", "1", "tru%D0%B5"):
        assert 400 == client.drop_table(["a"], "t", f"?purgeRequested={text}").status
    assert ["t"] == client.table_names("a")


async def the_warehouse(catalog: Application) -> Warehouse:
    return await resolve_warehouse(catalog.backends, PROJECT_ID_DEFAULT, "demo")


async def made_and_dropped(catalog: Application, folder: Path) -> Warehouse:
    """A table at `folder` with a snapshot of FILES data files, dropped with a requested purge. No job runs yet."""
    warehouse = await the_warehouse(catalog)
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
    await create(catalog, warehouse, "t", folder)
    table = TabularIdentifier(NAMESPACE, "t")
    updates = appended(folder, data_files(folder / "data", FILES))
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(table, [], updates))
    await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(table, True))
    return warehouse


async def create(catalog: Application, warehouse: Warehouse, name: str, folder: Path) -> None:
    command = CreateTable(NAMESPACE, name, f"file://{folder}", SCHEMA, None, None, {}, False)
    await create_table(catalog.commands, context("createTable"), warehouse, command)


async def topics(catalog: Application, count: int = 2) -> list[str]:
    """Of the last events, newest first."""
    async with catalog.backends.connection() as connection:
        cursor = await connection.execute("select topic from icecore.events order by notification_id desc limit %s", (count,))
        return [topic for (topic,) in await cursor.fetchall()]


async def test_the_location_stays_taken_until_the_files_are_gone(catalog: Application, tmp_path: Path) -> None:
    """The name is free at once, the location only after the job's event."""
    folder = tmp_path / "warehouse" / "here"
    warehouse = await made_and_dropped(catalog, folder)
    for place in (folder, folder / "below"):
        with pytest.raises(BadRequest, match=r"Location is already taken: .* still being purged"):
            await create(catalog, warehouse, "t", place)
    assert "table.dropped.v1" == (await topics(catalog))[0]
    assert FILES < len(files(folder))
    assert 1 == await catalog.purge.run_once()
    assert ["table.purged.v1", "task.deletion-begun.v1", "table.dropped.v1"] == await topics(catalog, 3)
    assert set() == files(folder)
    await create(catalog, warehouse, "t", folder)
    assert 0 == await catalog.purge.run_once()
    assert 1 == len(files(folder))
    assert [] == [str(difference) for difference in (await verify(catalog.dsn)).differences]


async def test_files_of_a_missing_folder_are_not_purged(catalog: Application, tmp_path: Path) -> None:
    """As with an unmounted disk: the table is not purged, and a later round deletes the files."""
    warehouse, folder = await the_warehouse(catalog), tmp_path / "warehouse"
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
    await create(catalog, warehouse, "t", folder / "here")
    await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(TabularIdentifier(NAMESPACE, "t"), True))
    folder.rename(tmp_path / "unmounted")
    assert 0 == await catalog.purge.run_once()
    assert ["task.attempt-failed.v1", "task.deletion-begun.v1", "table.dropped.v1"] == await topics(catalog, 3)
    (tmp_path / "unmounted").rename(folder)
    await asyncio.sleep(PAUSE_SECONDS_MIN)
    assert 1 == await catalog.purge.run_once()
    assert "table.purged.v1" == (await topics(catalog))[0]
    assert set() == files(folder)


async def test_a_job_stopped_in_the_middle_is_finished_later(catalog: Application, tmp_path: Path) -> None:
    """Some files are deleted, there is no event, and the location is still claimed. The next round does the rest."""
    folder = tmp_path / "warehouse" / "here"
    warehouse = await made_and_dropped(catalog, folder)
    job = asyncio.create_task(catalog.purge.run_once())
    for _ in range(20_000):
        if len(files(folder)) <= FILES - 100:
            break
        await asyncio.sleep(0.001)
    job.cancel()
    with suppress(asyncio.CancelledError):
        await job
    left = len(files(folder))
    assert 0 < left < FILES
    assert ["task.deletion-begun.v1", "table.dropped.v1"] == await topics(catalog, 2)
    with pytest.raises(BadRequest, match="Location is already taken"):
        await create(catalog, warehouse, "t", folder)
    assert 1 == await catalog.purge.run_once()
    assert ["table.purged.v1", "task.deletion-begun.v1", "table.dropped.v1"] == await topics(catalog, 3)
    assert set() == files(folder)
    assert 0 == await catalog.purge.run_once()


async def test_a_moved_table_is_purged_at_both_locations(catalog: Application, tmp_path: Path) -> None:
    """At its current and its former location, and nowhere else."""
    base = tmp_path / "warehouse"
    warehouse = await the_warehouse(catalog)
    await create_namespace(catalog.commands, context("createNamespace"), warehouse, CreateNamespace(NAMESPACE, {}))
    await create(catalog, warehouse, "t", base / "old")
    await create(catalog, warehouse, "neighbour", base / "older")
    table = TabularIdentifier(NAMESPACE, "t")
    move = {"action": "set-location", "location": f"file://{base}/new"}
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(table, [], [move]))
    assert (1, 1) == (len(files(base / "old")), len(files(base / "new")))
    with pytest.raises(BadRequest, match="Location is already taken"):
        await create(catalog, warehouse, "u", base / "old")
    await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(table, True))
    assert 1 == await catalog.purge.run_once()
    assert (0, 0, 1) == (len(files(base / "old")), len(files(base / "new")), len(files(base / "older")))
    await create(catalog, warehouse, "u", base / "old")


async def test_two_jobs_at_once_purge_a_table_once(catalog: Application, tmp_path: Path) -> None:
    """One leads, the other has nothing to do."""
    await made_and_dropped(catalog, tmp_path / "warehouse" / "here")
    assert [0, 1] == sorted(await asyncio.gather(catalog.purge.run_once(), catalog.purge.run_once()))
    assert ["table.purged.v1", "task.deletion-begun.v1", "table.dropped.v1"] == await topics(catalog, 3)
