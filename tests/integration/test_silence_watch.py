"""The watch over connections in use: it ends with whoever has them."""

import asyncio
from pathlib import Path

from commands.create_namespace import CreateNamespace, create_namespace
from domain.identifiers import NamespaceIdentifier
from queries.resolve_warehouse import resolve_warehouse
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog


def watches() -> int:
    return sum(task.get_name() == "silence-watch" for task in asyncio.all_tasks())


async def test_a_catalog_that_is_closed_leaves_no_watch_behind(database: str, tmp_path: Path) -> None:
    """Neither that of its reads nor that of its commits, which were looking a moment ago."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        warehouse = await resolve_warehouse(catalog.reads, PROJECT_ID, "demo")
        await create_namespace(catalog.write, context("createNamespace"), warehouse, CreateNamespace(NamespaceIdentifier(("a",)), {}))
        assert 2 == watches()
    await asyncio.sleep(0)
    assert 0 == watches()
