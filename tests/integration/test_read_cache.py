"""Cached responses are as fresh as the log, whichever process writes."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.update_namespace_properties import update_namespace_properties
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tables.rename_table import rename_table
from icecore.compose import Application
from icecore.domain.commands import CommitTable, CreateNamespace, CreateTable, DropTable, RenameTable, UpdateNamespaceProperties
from icecore.domain.errors import NoSuchTable, ServiceUnavailable
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.log import changes as log_changes
from icecore.projections.rebuild import rebuild
from icecore.queries import cache_invalidator
from icecore.queries.list_namespaces import list_namespaces
from icecore.queries.list_tabulars import list_tables
from icecore.queries.load_namespace import load_namespace
from icecore.queries.load_table import load_table, table_exists
from icecore.queries.read_cache import ENTRY_OVERHEAD_BYTES, ReadCache
from icecore.queries.results import PageRequest
from tests.fixtures.catalog import PROJECT_ID, context, opened_catalog, served_catalog
from tests.fixtures.rest_client import RestClient
from tests.fixtures.waiting import wait_for

NAMESPACE = NamespaceIdentifier(("a",))
TABLE = TabularIdentifier(NAMESPACE, "t")
TURNS = 300
ENTRY_BYTES = ENTRY_OVERHEAD_BYTES + 100 + sys.getsizeof(1)
"""For an entry of 100 bytes with a number as its key."""


@pytest.fixture
async def warehouse(catalog: Application) -> Warehouse:
    """The warehouse `demo` with a table `a.t`."""
    found = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo")
    await create_namespace(catalog.commands, context("createNamespace"), found, CreateNamespace(NAMESPACE, {}))
    await _create(catalog, found, "t")
    return found


@pytest.fixture
async def other(catalog: Application, database: str, tmp_path: Path) -> AsyncIterator[Application]:
    """A second process on the same database."""
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(opened_catalog(database, tmp_path / "warehouse"))


async def _create(catalog: Application, warehouse: Warehouse, name: str) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    command = CreateTable(NAMESPACE, name, None, schema, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), warehouse, command)


async def _set(catalog: Application, warehouse: Warehouse, value: int) -> None:
    command = CommitTable(TABLE, [], [{"action": "set-properties", "updates": {"turn": str(value)}}])
    await commit_table(catalog.commands, context("updateTable"), warehouse, command)


async def _turn(catalog: Application, warehouse: Warehouse) -> int:
    response = await load_table(catalog.queries, context("loadTable"), warehouse, TABLE)
    assert response.body is not None
    return int(orjson.loads(response.body)["metadata"]["properties"].get("turn", -1))


async def _warm(reader: Application, warehouse: Warehouse) -> None:
    """Responses for the table and its namespace are cached."""
    before = reader.queries.cache.metrics.hits
    # The first read of the log empties the cache.
    for _ in range(3):
        await _turn(reader, warehouse)
        await load_namespace(reader.queries, context("loadNamespaceMetadata"), warehouse, NAMESPACE)
    assert reader.queries.cache.metrics.hits - before >= 2


async def _stale_reads(writer: Application, reader: Application, warehouse: Warehouse) -> int:
    """How often a read after an acknowledged commit misses it."""
    stale = 0
    await _turn(reader, warehouse)
    for turn in range(TURNS):
        await _set(writer, warehouse, turn)
        turns = await asyncio.gather(*(_turn(reader, warehouse) for _ in range(4)))
        stale += sum(seen < turn for seen in turns)
    return stale


async def test_what_one_process_wrote_another_reads_at_once(catalog: Application, other: Application, warehouse: Warehouse) -> None:
    """There is no stale response, and some responses are cached."""
    assert 0 == await _stale_reads(catalog, other, warehouse)
    before = other.queries.cache.metrics.hits
    await asyncio.gather(*(_turn(other, warehouse) for _ in range(100)))
    assert other.queries.cache.metrics.hits - before >= 100


async def test_control_without_the_read_of_the_log_responses_are_stale(
    catalog: Application, other: Application, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: without the read of the log, the check above fails."""

    async def believe(_: cache_invalidator.CacheInvalidator) -> None:
        return None

    monkeypatch.setattr(cache_invalidator.CacheInvalidator, "confirm", believe)
    monkeypatch.setattr(cache_invalidator.CacheInvalidator, "refresh_in_background", lambda _: None)
    assert await _stale_reads(catalog, other, warehouse) > 0


async def test_names_listings_and_properties_are_as_fresh(catalog: Application, other: Application, warehouse: Warehouse) -> None:
    """One process's renames, drops, creations and properties are visible to the other at once."""
    queries, write, asked = other.queries, catalog.commands, context("read")
    everything = PageRequest()
    assert ["t"] == (await list_tables(queries, asked, warehouse, NAMESPACE, everything)).items
    await table_exists(queries, asked, warehouse, TABLE)
    await _create(catalog, warehouse, "u")
    assert ["t", "u"] == (await list_tables(queries, asked, warehouse, NAMESPACE, everything)).items
    await rename_table(write, context("renameTable"), warehouse, RenameTable(TABLE, TabularIdentifier(NAMESPACE, "v")))
    with pytest.raises(NoSuchTable):
        await table_exists(queries, asked, warehouse, TABLE)
    with pytest.raises(NoSuchTable):
        await load_table(queries, asked, warehouse, TABLE)
    assert ["u", "v"] == (await list_tables(queries, asked, warehouse, NAMESPACE, everything)).items
    await drop_table(write, context("dropTable"), warehouse, DropTable(TabularIdentifier(NAMESPACE, "u"), purge_requested=False))
    assert ["v"] == (await list_tables(queries, asked, warehouse, NAMESPACE, everything)).items
    assert {"location"} == set((await load_namespace(queries, asked, warehouse, NAMESPACE)).properties)
    update = UpdateNamespaceProperties(NAMESPACE, [], {"k": "v"})
    await update_namespace_properties(write, context("updateProperties"), warehouse, update)
    assert "v" == (await load_namespace(queries, asked, warehouse, NAMESPACE)).properties["k"]


async def test_responses_are_the_same_with_and_without_memory(
    catalog: Application, database: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    """With a writer in another process, byte for byte at equal versions."""
    async with opened_catalog(database, tmp_path / "warehouse", cache_bytes_max=0) as plain:
        for turn in range(50):
            await _set(catalog, warehouse, turn)
            loads = (load_table(each.queries, context("loadTable"), warehouse, TABLE) for each in (catalog, plain))
            kept, asked = await asyncio.gather(*loads)
            assert asked == kept
        assert 0 == plain.queries.cache.metrics.hits


async def test_a_rebuild_under_the_readers_changes_no_response(catalog: Application, warehouse: Warehouse) -> None:
    """The generation is read with the log's head."""
    before = await load_table(catalog.queries, context("loadTable"), warehouse, TABLE)
    await rebuild(catalog.dsn)
    assert before == await load_table(catalog.queries, context("loadTable"), warehouse, TABLE)


async def test_changes_that_take_several_statements_are_mended(catalog: Application, other: Application, warehouse: Warehouse) -> None:
    """Two full statements and a partial one: affected entries are removed, others stay cached."""
    await _warm(other, warehouse)
    for turn in range(2 * log_changes.CHANGES_PAGE_SIZE + 1):
        await _set(catalog, warehouse, turn)
    assert 2 * log_changes.CHANGES_PAGE_SIZE == await _turn(other, warehouse)
    hits = other.queries.cache.metrics.hits
    await load_namespace(other.queries, context("loadNamespaceMetadata"), warehouse, NAMESPACE)
    assert hits + 1 == other.queries.cache.metrics.hits


async def test_postgres_settles_on_one_plan_for_the_read_of_the_log(catalog: Application, warehouse: Warehouse) -> None:
    """Planning each call would take five times as long. Postgres plans the first five calls before it caches a plan."""
    async with catalog.backends.connection() as connection:
        for _ in range(20):
            changes = await log_changes.read_changes(connection, log_changes.LogHead(0, None))
            assert log_changes.CHANGES_PAGE_SIZE > len(changes.events) > 0
        plans = "select custom_plans from pg_prepared_statements where name = 'icecore_changes'"
        assert (5,) == await (await connection.execute(plans)).fetchone()


async def test_more_changes_than_are_mended_empty_the_memory(
    catalog: Application, other: Application, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is far behind the log has no stale entries."""
    await _warm(other, warehouse)
    monkeypatch.setattr(log_changes, "CHANGES_MAX", 3)
    for turn in range(5):
        await _set(catalog, warehouse, turn)
    assert 4 == await _turn(other, warehouse)
    hits = other.queries.cache.metrics.hits
    await load_namespace(other.queries, context("loadNamespaceMetadata"), warehouse, NAMESPACE)
    assert hits == other.queries.cache.metrics.hits


async def test_interrupted_log_read_is_reported_and_next_read_succeeds(catalog: Application, warehouse: Warehouse) -> None:
    """Postgres ends the session during a wait for a lock: waiting requests get 503, and the broken connection is not reused."""
    await _turn(catalog, warehouse)
    connect = psycopg.AsyncConnection.connect
    async with await connect(catalog.dsn) as locker, await connect(catalog.dsn, autocommit=True) as ender:
        await locker.execute("lock table icecore.read_models in access exclusive mode")
        reading = asyncio.create_task(_turn(catalog, warehouse))
        query = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock' and query like '%read_models m%'"
        while (await (await ender.execute(query)).fetchone()) is None:
            await asyncio.sleep(0.01)
        with pytest.raises(ServiceUnavailable):
            await reading
    assert -1 == await _turn(catalog, warehouse)


def test_a_value_read_before_its_tag_was_dropped_is_not_kept() -> None:
    """The drop may be between the read and the caching."""
    cache = ReadCache(1_000_000)
    early, late = cache.begin_fill(), None
    cache.invalidate("tag")
    late = cache.begin_fill()
    cache.finish_fill(early, "early", 1, 10, ["tag"])
    cache.finish_fill(late, "late", 2, 10, ["tag"])
    assert (None, 2) == (cache.get("early"), cache.get("late"))


def test_a_value_read_before_all_was_forgotten_is_not_kept() -> None:
    """With any tags. Removed entries take no memory."""
    cache = ReadCache(4 * ENTRY_BYTES)
    cache.finish_fill(cache.begin_fill(), 0, "old", 100, ["tag"])
    early = cache.begin_fill()
    cache.clear()
    late = cache.begin_fill()
    cache.finish_fill(early, 1, "early", 100, ["other"])
    assert ([False, False], 0) == ([n in cache for n in range(2)], cache.metrics.bytes_held)
    cache.finish_fill(late, 2, "late", 100, ["tag"])
    assert ("late", ENTRY_BYTES) == (cache.get(2), cache.metrics.bytes_held)


def test_requests_that_came_at_once_end_up_with_one_object() -> None:
    """Their values are equal. Another value replaces it."""
    cache, values = ReadCache(1_000_000), [b"".join((b"same", n)) for n in (b"", b"", b"!")]
    kept = [
        cache.finish_fill(ticket, "key", value, 10, []) for ticket, value in zip([cache.begin_fill() for _ in values], values, strict=True)
    ]
    assert [id(values[0]), id(values[0]), id(values[2])] == [id(value) for value in kept]
    assert cache.get("key") is values[2]


def test_the_memory_is_bounded_in_bytes() -> None:
    """The least recently used entry is removed. One that is too large is not cached."""
    cache = ReadCache(10 * ENTRY_BYTES)
    for n in range(20):
        cache.finish_fill(cache.begin_fill(), n, n, 100, [n])
    assert [n >= 10 for n in range(20)] == [n in cache for n in range(20)]
    assert cache.metrics.bytes_held <= 10 * ENTRY_BYTES
    cache.finish_fill(cache.begin_fill(), "large", 0, 1_000_000, [])
    assert "large" not in cache


def test_what_was_used_last_is_kept_longest() -> None:
    """Reading or caching an entry again makes it recent."""
    cache = ReadCache(4 * ENTRY_BYTES)
    for n in range(4):
        cache.finish_fill(cache.begin_fill(), n, n, 100, [n])
    assert 0 == cache.get(0)
    cache.finish_fill(cache.begin_fill(), 1, 10, 100, [1])
    cache.finish_fill(cache.begin_fill(), 4, 4, 100, [4])
    cache.finish_fill(cache.begin_fill(), 5, 5, 100, [5])
    assert [0, 1, 4, 5] == [n for n in range(6) if n in cache]
    assert (2, 4 * ENTRY_BYTES) == (cache.metrics.evicted, cache.metrics.bytes_held)


def test_the_bytes_of_keys_count() -> None:
    """Each page size and each page token is a key."""
    cache = ReadCache(200_000)
    for n in range(100):
        cache.finish_fill(cache.begin_fill(), ("list", f"{n:010000}"), n, 100, [n])
    assert 10 < sum(f"{n:010000}" in [key[1] for key in cache._entries] for n in range(100)) < 20


async def test_the_names_of_a_listing_count_as_they_are(catalog: Application, warehouse: Warehouse) -> None:
    """A name of 255 characters takes a kilobyte."""
    for n in range(20):
        command = CreateNamespace(NamespaceIdentifier((f"{n:03}" + "\U0001f600" * 252,)), {})
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, command)
    await _warm(catalog, warehouse)
    before = catalog.queries.cache.metrics.bytes_held
    await list_namespaces(catalog.queries, context("listNamespaces"), warehouse, None, PageRequest())
    assert catalog.queries.cache.metrics.bytes_held - before > 20 * 255 * 4


def test_what_was_dropped_before_all_reads_in_flight_is_not_remembered() -> None:
    """Otherwise overlapping reads would collect all tags."""
    cache = ReadCache(1_000_000)
    ticket = cache.begin_fill()
    for n in range(1_000):
        cache.invalidate(n)
        cache.invalidate("often")
        following = cache.begin_fill()
        cache.finish_fill(ticket, "key", n, 10, ["often"])
        assert cache.get("key") is None
        ticket = following
    assert not cache._invalidated_while_filling
    cache.invalidate("tag")
    other = cache.begin_fill()
    cache.end_fill(other)
    cache.finish_fill(ticket, "key", 1, 10, ["tag"])
    assert cache.get("key") is None


@pytest.mark.parametrize(
    "path",
    ["/namespaces", "/namespaces/a", "/namespaces/a/tables", "/namespaces/a/tables/t", "/namespaces/a/views", "/config"],
)
def test_a_repeated_request_reads_the_log_once_and_nothing_else(
    path: str, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warehouse and the result are cached, and both are confirmed by one read."""
    used: list[str] = []
    read_changes = cache_invalidator.read_changes

    async def counted_changes(*arguments: Any) -> Any:
        used.append("log")
        return await read_changes(*arguments)

    def counting(catalog: Application) -> None:
        connection = catalog.backends.connection

        def counted() -> Any:
            used.append("read models")
            return connection()

        monkeypatch.setattr(catalog.backends, "connection", counted)

    monkeypatch.setattr(cache_invalidator, "read_changes", counted_changes)
    with served_catalog(database, tmp_path / "demo", prepare=counting, jobs=False) as served, closing(RestClient(served.url)) as client:
        assert 200 == client.create_namespace("a").status
        assert 200 == client.create_table(["a"], "t").status

        def get() -> int:
            return (client.call_root("GET", "/config?warehouse=demo") if path == "/config" else client.call("GET", path)).status

        # The first ones fill the cache, and the log is read once more behind each of them.
        assert [200] * 3 == [get() for _ in range(3)]
        wait_for(lambda: (used.clear(), time.sleep(0.2), not used)[-1])
        assert [200] * 5 == [get() for _ in range(5)]
        assert ["log"] * 5 == used
