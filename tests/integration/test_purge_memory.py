"""The memory of a large table's purge: it waits for other large documents, and keeps no document while files are deleted."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.tables.drop_table import drop_table
from icecore.compose import Application
from icecore.domain.commands import CreateNamespace, DropTable
from icecore.domain.table import TableState
from icecore.storage.large_documents import LARGE_BYTES_MIN
from tests.fixtures.catalog import context, opened_catalog
from tests.integration.test_large_tables import TABLE, demo, metadata_file, register
from tests.integration.test_metadata_trimming import local
from tests.integration.test_purge_job import Point, gate, wait_is_over


@pytest.fixture
async def catalog(database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """A process without a cached state of the large table `t`, which another has dropped with a purge."""
    file = local(metadata_file(tmp_path, snapshots=3))
    document = orjson.loads(file.read_bytes())
    document["properties"] = {"comment": "x" * 2 * LARGE_BYTES_MIN}
    file.write_bytes(orjson.dumps(document))
    async with opened_catalog(database, tmp_path / "warehouse") as other:
        await create_namespace(other.commands, context("createNamespace"), await demo(other), CreateNamespace(TABLE.namespace, {}))
        await register(other, f"file://{file}")
        await drop_table(other.commands, context("dropTable"), await demo(other), DropTable(TABLE, purge_requested=True))
    del other
    async with opened_catalog(database, tmp_path / "warehouse") as opened:
        yield opened


def table_states() -> list[TableState]:
    """Those in memory, including those of earlier tests."""
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, TableState)]


async def test_a_large_table_s_purge_waits_for_its_turn(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins when other requests are done with their large documents, and is retried after a timeout."""
    monkeypatch.setattr(catalog.commands.large_documents, "_wait_seconds_max", 0.05)
    async with catalog.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
        assert 0 == await catalog.purge.run_once()
    wait_is_over(catalog)
    assert 1 == await catalog.purge.run_once()


async def test_a_large_table_s_document_is_not_kept_during_its_purge(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the files' names are in memory meanwhile, and other requests read large documents."""
    deleting, before = Point(), table_states()
    gate(monkeypatch, catalog.commands, held=deleting)
    purge = asyncio.create_task(catalog.purge.run_once())
    await deleting.reached.wait()
    assert [] == [state for state in table_states() if all(state is not known for known in before)]
    async with asyncio.timeout(10), catalog.commands.large_documents.reservation() as reservation:
        await reservation.reserve_all()
    deleting.let_go.set()
    assert 1 == await purge
