"""Events of objects in deep namespaces with long names: each name is read about once."""

import asyncio
from pathlib import Path

import psycopg

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.domain.commands import CreateNamespace, UpdateNamespaceProperties
from icecore.domain.identifiers import NAME_CODE_POINTS_MAX, NAMESPACE_LEVELS_MAX, NamespaceIdentifier
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import CommandRun
from tests.integration.history.serving import serving
from tests.integration.history.test_event_pages import head

LEAVES = 200
LOOKUPS_PER_EVENT_MAX = 3
LONG = NAME_CODE_POINTS_MAX * "\U00020000"


async def create_deep(run: CommandRun, leaves: int) -> NamespaceIdentifier:
    """Creates that many namespaces at the deepest level. Returns their parent."""
    above: tuple[str, ...] = ()
    for _ in range(NAMESPACE_LEVELS_MAX - 1):
        above = (*above, LONG)
        await create_namespace(
            run.catalog.commands, context("createNamespace"), run.warehouse, CreateNamespace(NamespaceIdentifier(above), {})
        )
    for number in range(leaves):
        command = CreateNamespace(NamespaceIdentifier((*above, f"{number:06}{LONG[6:]}")), {})
        await create_namespace(run.catalog.commands, context("createNamespace"), run.warehouse, command)
    return NamespaceIdentifier(above)


async def touch(run: CommandRun, above: NamespaceIdentifier, leaves: int) -> None:
    """One small event for each."""
    for number in range(leaves):
        command = UpdateNamespaceProperties(NamespaceIdentifier((*above.levels, f"{number:06}{LONG[6:]}")), [], {"p": "1"})
        await update_namespace_properties(run.catalog.commands, context("updateProperties"), run.warehouse, command)


async def name_lookups(connection: psycopg.AsyncConnection) -> int:
    """The number of lookups of all closed connections."""
    cursor = await connection.execute("select sum(idx_scan)::bigint from pg_stat_user_indexes where relname = 'names'")
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def others_closed(connection: psycopg.AsyncConnection) -> None:
    """Waits until this connection is the only one, so that the others have reported their statistics."""
    async with asyncio.timeout(20):
        while True:
            cursor = await connection.execute("select count(*) from pg_stat_activity where datname = current_database()")
            if await cursor.fetchone() == (1,):
                return
            await asyncio.sleep(0.02)


async def test_a_filtered_page_reads_each_name_once(database: str, tmp_path: Path) -> None:
    """A filter without matches checks every event, whose parents are the same."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        above = await create_deep(run, LEAVES)
        await touch(run, above, LEAVES)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await others_closed(connection)
        before = await name_lookups(connection)
        async with opened_catalog(database, tmp_path / "warehouse") as catalog, serving(catalog) as served:
            end = await head(served)
            page = await served.get("/events", namespaces="nowhere", page_size=10_000)
            assert ([], end) == (page.positions, page.json["position"])
        await others_closed(connection)
        assert await name_lookups(connection) - before < LOOKUPS_PER_EVENT_MAX * end
