"""Large listings, by long namespaces or by many items: complete, in order, and with limited memory."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from icecore.api.api_request import RESPONSE_BUDGET
from icecore.api.iceberg import listings
from icecore.commands.namespaces.create_namespace import CreateNamespace, create_namespace
from icecore.commands.tables.create_table import CreateTable, create_table
from icecore.commands.views.create_view import CreateView, create_view
from icecore.domain.identifiers import NAME_CODE_POINTS_MAX, NAMESPACE_LEVELS_MAX, NamespaceIdentifier
from icecore.projections import names
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.command_runs import SCHEMA, CommandRun
from tests.fixtures.rest_client import view_version
from tests.integration.history.serving import Served, serving

ITEMS = 300
LONG = NAME_CODE_POINTS_MAX * "\U00020000"
ABOVE = NamespaceIdentifier((LONG,) * (NAMESPACE_LEVELS_MAX - 1))
PEAK_BYTES_MAX = 7_000_000
"""Limit on Python's memory, client and server. The path of 46 KB takes 4 MB, the response 5 MB."""


@pytest.fixture
async def served(database: str, tmp_path: Path) -> AsyncIterator[Served]:
    """With the long namespaces."""
    async with opened_catalog(database, tmp_path / "warehouse", cache_bytes_max=0) as catalog, serving(catalog) as opened:
        run = await CommandRun.on(catalog)
        for depth in range(1, NAMESPACE_LEVELS_MAX):
            command = CreateNamespace(NamespaceIdentifier(ABOVE.levels[:depth]), {})
            await create_namespace(catalog.commands, context("createNamespace"), run.warehouse, command)
        yield opened


async def namespace(run: CommandRun, above: NamespaceIdentifier, name: str) -> None:
    command = CreateNamespace(NamespaceIdentifier((*above.levels, name)), {})
    await create_namespace(run.catalog.commands, context("createNamespace"), run.warehouse, command)


async def table(run: CommandRun, above: NamespaceIdentifier, name: str) -> None:
    command = CreateTable(above, name, None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(run.catalog.commands, context("createTable"), run.warehouse, command)


async def view(run: CommandRun, above: NamespaceIdentifier, name: str) -> None:
    command = CreateView(above, name, None, SCHEMA, view_version("select 1"), {})
    await create_view(run.catalog.commands, context("createView"), run.warehouse, command)


Create = Callable[[CommandRun, NamespaceIdentifier, str], Awaitable[None]]
_JOINED = "\x1f".join(ABOVE.levels)
LISTINGS: list[tuple[Create, str, dict[str, str]]] = [
    (namespace, "/catalog/v1/demo/namespaces", {"parent": _JOINED}),
    (table, f"/catalog/v1/demo/namespaces/{_JOINED}/tables", {}),
    (view, f"/catalog/v1/demo/namespaces/{_JOINED}/views", {}),
]


def listed(response: Any) -> list[list[str]]:
    if "namespaces" in response:
        return [list(levels) for levels in response["namespaces"]]
    return [[*item["namespace"], item["name"]] for item in response["identifiers"]]


async def created(served: Served, create: Create, count: int = ITEMS) -> list[list[str]]:
    run = await CommandRun.on(served.catalog)
    made = [f"{number:06}{LONG[6:]}" for number in range(count)]
    for name in made:
        await create(run, ABOVE, name)
    return [[*ABOVE.levels, name] for name in made]


async def whole(served: Served, path: str, query: dict[str, str]) -> list[list[str]]:
    answered = await served.ask("GET", path, query=query)
    assert (200, None) == (answered.status, answered.json["next-page-token"])
    return listed(answered.json)


@pytest.mark.parametrize(("create", "path", "query"), LISTINGS, ids=["namespaces", "tables", "views"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_long_listing_is_whole_and_small_in_memory(
    served: Served, create: Create, path: str, query: dict[str, str], encoding: str
) -> None:
    """Without paging everything is returned. The common part of the items is in memory once."""
    expected = await created(served, create)
    assert expected == await whole(served, path, query)
    async with aiohttp.ClientSession(read_bufsize=16 * 1024, auto_decompress=False) as session:
        tracemalloc.start()
        try:
            async with session.get(served.url + path, params=query, headers={"Accept-Encoding": encoding}) as response:
                assert 200 == response.status
                received = 0
                async for chunk in response.content.iter_chunked(16 * 1024):
                    received += len(chunk)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (received > len(orjson.dumps(expected))) == (encoding == "identity")
    assert peak < PEAK_BYTES_MAX


async def test_a_client_that_reads_nothing_has_only_the_names_in_memory(served: Served) -> None:
    """The budget for responses counts the memory in use, already while the names are read."""
    create, path, query = LISTINGS[0]
    expected = await created(served, create)
    budget = served.catalog.app[RESPONSE_BUDGET]  # type: ignore[attr-defined]
    async with aiohttp.ClientSession(read_bufsize=1024) as session:
        async with session.get(served.url + path, params=query, headers={"Accept-Encoding": "identity"}) as response:
            assert 200 == response.status
            assert (
                ITEMS * NAME_CODE_POINTS_MAX * 4
                <= budget.reserved_bytes
                < 2 * ITEMS * NAME_CODE_POINTS_MAX * 4
                < len(orjson.dumps(expected)) / 5
            )
            budget._bytes_max = budget.reserved_bytes
            refused = await served.ask("GET", path, query=query)
            assert (429, "TooManyRequestsException") == refused.error
        async with asyncio.timeout(20):
            while budget.reserved_bytes:
                await asyncio.sleep(0.01)
    assert expected == await whole(served, path, query)


async def test_pages_of_a_deep_namespace_are_bounded_in_bytes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any requested page size. Together the pages are complete."""
    create, path, query = LISTINGS[1]
    expected = await created(served, create, 30)
    monkeypatch.setattr(listings, "PAGE_BYTES_MAX", 100_000)
    found: list[list[str]] = []
    token: str | None = ""
    while token is not None:
        answered = await served.ask("GET", path, query={**query, "pageToken": token, "pageSize": "10000"})
        assert len(answered.body) < 200_000
        found += listed(answered.json)
        token = answered.json["next-page-token"]
    assert expected == found


async def listed_during_a_rename(served: Served, monkeypatch: pytest.MonkeyPatch, size: int | None) -> tuple[list[str], bool]:
    """The result of a listing of n00 to n29 in steps of ten, and whether there is more. n29 becomes `a` after the first step."""
    create, _, _ = LISTINGS[1]
    run = await CommandRun.on(served.catalog)
    await namespace(run, NamespaceIdentifier(()), "short")
    for number in range(30):
        await create(run, NamespaceIdentifier(("short",)), f"n{number:02}")
    monkeypatch.setattr(names, "NAMES_PAGE_SIZE", 10)
    monkeypatch.setattr(listings, "_ITEMS_INLINE_MAX", 7)
    list_names, reads = names._list, 0

    async def meanwhile(*asked: Any, **more: Any) -> Any:
        nonlocal reads
        rows = await list_names(*asked, **more)
        reads += 1
        # The first read only determines that there are many.
        if reads == 2:
            body = {"source": {"namespace": ["short"], "name": "n29"}, "destination": {"namespace": ["short"], "name": "a"}}
            assert 204 == (await served.ask("POST", "/catalog/v1/demo/tables/rename", body)).status
        return rows

    monkeypatch.setattr(names, "_list", meanwhile)
    query = {} if size is None else {"pageToken": "", "pageSize": size}
    answered = await served.ask("GET", "/catalog/v1/demo/namespaces/short/tables", query=query)
    return [name for _, name in listed(answered.json)], answered.json["next-page-token"] is not None


NAMES = [f"n{number:02}" for number in range(30)]


@pytest.mark.parametrize("size", [None, 25, 30, 31])
async def test_a_listing_that_is_read_in_steps_is_of_one_moment(served: Served, monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    """An object that is renamed during the listing is listed once."""
    assert (NAMES[:size], size == 25) == await listed_during_a_rename(served, monkeypatch, size)


async def test_a_listing_of_several_moments_misses_what_is_renamed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    monkeypatch.setattr(names, "_SQL", {**names._SQL, "one_moment": b"select 1"})
    assert (NAMES[:29], False) == await listed_during_a_rename(served, monkeypatch, None)
