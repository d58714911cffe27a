"""The search for tables and views: it finds what exists now, in its own warehouse, by name, path and id."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Cursor
from psycopg.rows import DictRow

from icecore import asynchronous_projections
from icecore.asynchronous_projections import rebuild_projection
from icecore.compose import Application
from icecore.domain.recorded import RecordedEvent
from icecore.projections import search
from icecore.projections.asynchronous.search import SearchProjection, SearchView
from icecore.projections.search import FOUND_MAX
from icecore.projections.verify import verify
from tests.fixtures.asynchronous import caught_up, projecting, rows
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.command_runs import EVERY_KIND, CommandRun, Step
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestClient
from tests.integration.test_projects import DEFAULT, Tenants
from tests.integration.test_soft_deletion import Client

Found = list[dict[str, Any]]


class Search(Client):
    """Searches in the warehouse `demo`."""

    def search(self, text: str) -> Found:
        """What is found once the whole log is indexed."""
        rebuild_projection(self.dsn, SearchProjection)
        return self.search_now(text)

    def search_now(self, text: str) -> Found:
        response = self.call_warehouse("POST", "/search-tabular", {"search": text})
        assert 200 == response.status, response.body
        found: Found = response.json["tabulars"]
        return found

    def paths(self, text: str) -> list[str]:
        return [path(each) for each in self.search(text)]


def path(found: dict[str, Any]) -> str:
    return ".".join([*found["namespace-name"], found["tabular-name"]])


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", jobs=False, local_warehouse_roots=(tmp_path,), skip_storage_validation=True) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Search]:
    with closing(Search(server.url)) as client:
        client.dsn = server.dsn
        for namespace in (["sales"], ["sales", "eu"], ["finance"]):
            assert 200 == client.create_namespace(*namespace).status
        for namespace, name in ((["sales"], "orders"), (["sales", "eu"], "customers"), (["finance"], "ledger_2026")):
            assert 200 == client.create_table(namespace, name).status
        assert 200 == client.create_view(["finance"], "balance").status
        yield client


def test_it_finds_names_misspelt_names_paths_and_what_is_in_namespaces(client: Search) -> None:
    """The nearest first, in Lakekeeper's form."""
    orders = client.search("orders")[0]
    assert {"namespace-name": ["sales"], "tabular-name": "orders", "distance": 0}.items() <= orders.items()
    assert "table" == orders["tabular-id"]["type"]
    balance = client.search("BALANCE")[0]
    assert ("view", 0) == (balance["tabular-id"]["type"], balance["distance"])
    for text in ("custmers", "customer", "sales.eu.customers", "eu customers", "cust"):
        assert "sales.eu.customers" == client.paths(text)[0], text
    assert ["finance.balance", "finance.ledger_2026"] == sorted(client.paths("finance"))
    assert ["sales.orders", "sales.eu.customers"] == client.paths("sales")
    assert ["finance.ledger_2026"] == client.paths("2026")
    for nothing in ("", "   ", ".", "zzz", "%", "'", "a." * 32):
        assert [] == client.paths(nothing), nothing


def test_it_searches_at_the_command_line(client: Search) -> None:
    """The same in a table or as JSON; also in an inactive warehouse."""
    assert 200 == client.call_warehouse("POST", "/deactivate").status
    found = client.search("sales.ordres")
    done = icecore(client.dsn, "table", "search", "demo", "sales.ordres", "--json")
    assert (0, found) == (done.returncode, json.loads(done.stdout)), done.stderr
    done = icecore(client.dsn, "table", "search", "demo", "sales.ordres")
    header, first, *_ = done.stdout.splitlines()
    assert ["name", "type", "id", "distance"] == header.split()
    assert ["sales.orders", "table", found[0]["tabular-id"]["id"], "0.44"] == first.split()
    done = icecore(client.dsn, "table", "search", "demo", "zzz")
    assert (0, "nothing is found\n") == (done.returncode, done.stdout)
    done = icecore(client.dsn, "table", "search", "none", "zzz")
    assert 0 != done.returncode
    assert "Warehouse does not exist: none" in done.stderr


def test_it_finds_by_id(client: Search) -> None:
    """A table, a view, or what is in a namespace; without a distance."""
    for each in (client.search("orders")[0], client.search("balance")[0]):
        assert [each | {"distance": None}] == client.search(each["tabular-id"]["id"].upper())
    ((namespace_id,),) = rows(client.dsn, "select object_id from icecore.names where kind = 'namespace' and name = 'finance'")
    assert ["finance.ledger_2026", "finance.balance"] == client.paths(str(namespace_id))
    ((namespace_id,),) = rows(client.dsn, "select object_id from icecore.names where kind = 'namespace' and name = 'sales'")
    assert ["sales.orders"] == client.paths(str(namespace_id)), "not in the namespaces below it"
    assert [] == client.paths(str(uuid4()))


def test_only_what_exists_now_is_found_under_its_present_name(client: Search) -> None:
    """Also if the index is behind."""
    client.soft_delete()
    client.search("orders")
    assert 204 == client.call("DELETE", "/namespaces/sales/tables/orders").status
    assert [] == client.search_now("orders") == client.search("orders")
    assert 204 == client.undrop_all().status
    assert ["sales.orders"] == [path(each) for each in client.search_now("orders")]
    rename = {"source": {"namespace": ["sales"], "name": "orders"}, "destination": {"namespace": ["finance"], "name": "receipts"}}
    assert 204 == client.call("POST", "/tables/rename", rename).status
    assert ["finance.receipts"] == client.paths("receipts")
    assert [] == client.paths("orders")
    ((namespace_id,),) = rows(client.dsn, "select object_id from icecore.names where kind = 'namespace' and name = 'finance'")
    moved = client.call_warehouse("POST", f"/namespace/{namespace_id}/move", {"destination": ["sales", "money"]})
    assert 200 == moved.status, moved.body
    assert ["sales.money.receipts"] == [path(each) for each in client.search_now("receipts")]
    assert ["sales.money.receipts"] == client.paths("sales.money.receipts")[:1]
    assert {"sales.money.receipts", "sales.money.balance", "sales.money.ledger_2026"} == set(client.paths("money"))
    assert not [each for each in client.paths("finance") if each.startswith("finance.")]


def test_a_name_among_very_many_is_found(client: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its whole name, by its path, and by a rare part, although few candidates are compared."""
    monkeypatch.setattr(search, "_CANDIDATES_MAX", 3)
    for number in range(12):
        assert 200 == client.create_namespace(f"tenant{number}").status
        assert 200 == client.create_table([f"tenant{number}"], "orders").status
        assert 200 == client.create_table(["finance"], f"orders_{number}x").status
    assert 200 == client.create_table(["finance"], "x7").status
    assert ["tenant7.orders"] == client.paths("tenant7.orders")[:1]
    assert ["finance.orders_7x"] == client.paths("orders_7x")[:1]
    assert ["finance.x7"] == client.paths("x7")[:1]
    found = client.search("orders")
    assert {0} == {each["distance"] for each in found}
    assert 3 <= len(found) <= FOUND_MAX


def test_a_rebuild_leaves_statistics_for_the_planner(client: Search) -> None:
    """Without them, a search by path reads the names of all tables."""
    statistics = "select count(*) from pg_stats where schemaname = 'icecore' and tablename = 'search_names' and attname = 'terms'"
    assert [(0,)] == rows(client.dsn, statistics)
    rebuild_projection(client.dsn, SearchProjection)
    assert [(1,)] == rows(client.dsn, statistics)


def test_at_most_ten_are_found(client: Search) -> None:
    for number in range(12):
        assert 200 == client.create_table(["sales"], f"archive_{number}").status
    assert FOUND_MAX == len(client.search("archive")) == len(client.search("sales"))
    ((namespace_id,),) = rows(client.dsn, "select object_id from icecore.names where kind = 'namespace' and name = 'sales'")
    assert FOUND_MAX == len(client.search(str(namespace_id)))


def test_nothing_of_another_warehouse_or_project_is_found(client: Search, server: CatalogServer, tmp_path: Path) -> None:
    """Neither by a name nor by an id, and nobody else's warehouse can be searched."""
    with closing(Tenants(server.url)) as tenants:
        project = tenants.create("other")
        other = tenants.new_warehouse("wh", tmp_path / "wh", project)
        address = f"/management/v1/warehouse/{other}/search-tabular"
        rebuild_projection(client.dsn, SearchProjection)
        table_id = client.search("orders")[0]["tabular-id"]["id"]
        for text in ("orders", "sales.orders", table_id):
            assert [] == tenants.send("POST", address, {"search": text}, project=project).json["tabulars"]
        assert (404, "NoSuchWarehouseException") == tenants.send("POST", address, {"search": "orders"}, project=DEFAULT).error


def test_a_search_that_means_nothing_is_refused(client: Search) -> None:
    """Characters after the first 64 are ignored, as in Lakekeeper."""
    assert ["sales.orders"] == client.paths("orders" + " " * 58 + "x" * 1000)
    for body in ({}, {"search": None}, {"search": 5}, {"search": "\0"}, {"search": "x", "limit": 5}):
        assert (400, "BadRequestException") == client.call_warehouse("POST", "/search-tabular", body).error, body
    unknown = client.call_management("POST", f"/{uuid4()}/search-tabular", {"search": "x"})
    assert (404, "NoSuchWarehouseException") == unknown.error


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_random_history_is_indexed_as_the_log_has_it(catalog: Application, seed: int) -> None:
    """By the worker's projection, by a rebuild and by verify: three ways to one index."""
    drawn = random.Random(seed)
    run = await CommandRun.on(catalog)
    kinds = sorted({step.kind for step in EVERY_KIND})
    select = "select * from icecore.search_names order by 1", "select * from icecore.search_terms order by 1"
    async with projecting(catalog.dsn, SearchProjection):
        for step in [
            *EVERY_KIND,
            *(Step(drawn.choice(kinds), drawn.randrange(2), drawn.randrange(3), drawn.randrange(4)) for _ in range(100)),
        ]:
            await run.step(step)
            if drawn.random() < 0.1:
                await asyncio.sleep(0.1)
        await caught_up(catalog.dsn, "search")
        live = [rows(catalog.dsn, each) for each in select]
    assert len(live[0]) > 2
    assert [] == [each for each in (await verify(catalog.dsn)).differences if each.table.startswith("search")]
    await asyncio.to_thread(rebuild_projection, catalog.dsn, SearchProjection)
    assert live == [rows(catalog.dsn, each) for each in select]
    names = "select object_id, name from icecore.names where to_position is null and kind in ('table', 'view', 'namespace')"
    indexed = rows(catalog.dsn, "select object_id, name from icecore.search_names")
    assert set(rows(catalog.dsn, names)) <= set(indexed), "and the soft-deleted"


async def test_verify_finds_a_wrong_index(catalog: Application) -> None:
    """A wrong name, a missing and an additional row, a wrong number, and a position beyond the log."""
    run = await CommandRun.on(catalog)
    for step in EVERY_KIND[:9]:
        await run.step(step)
    await asyncio.to_thread(rebuild_projection, catalog.dsn, SearchProjection)
    with psycopg.connect(catalog.dsn, autocommit=True) as connection:
        for harm in (
            "update icecore.search_names set name = name || 'x'",
            "update icecore.search_names set warehouse_id = gen_random_uuid()",
            "update icecore.search_names set terms = terms[2:]",
            "delete from icecore.search_names",
            "insert into icecore.search_names select gen_random_uuid(), warehouse_id, kind, name, terms from icecore.search_names limit 1",
            "update icecore.search_terms set objects = objects + 1",
            "delete from icecore.search_terms where objects = 1",
            "insert into icecore.search_terms values (0, 0)",
            "update icecore.search_tracking set notification_id = 100000",
            "delete from icecore.search_tracking",
        ):
            connection.execute(harm.encode())
            found = [each for each in (await verify(catalog.dsn)).differences if each.table.startswith("search")]
            assert found, harm
            await asyncio.to_thread(rebuild_projection, catalog.dsn, SearchProjection)
            assert [] == [each for each in (await verify(catalog.dsn)).differences if each.table.startswith("search")], harm


class Waiting(SearchView):
    """A view that waits in the middle of a rebuild."""

    middle, going_on = threading.Event(), threading.Event()

    def write(self, cursor: Cursor[DictRow], events: Sequence[RecordedEvent]) -> None:
        super().write(cursor, events[: len(events) // 2])
        self.middle.set()
        assert self.going_on.wait(30)
        super().write(cursor, events[len(events) // 2 :])


class SlowSearch(SearchProjection):
    name = "search"
    VIEW = Waiting


def test_searches_find_the_rows_from_before_until_a_rebuild_is_done(client: Search, server: CatalogServer) -> None:
    """Beside a worker, which waits. What comes meanwhile is indexed once."""
    assert ["sales.orders"] == client.paths("orders")

    async def rebuilt() -> None:
        async with projecting(client.dsn, SearchProjection):
            rebuilding = asyncio.create_task(asyncio.to_thread(rebuild_projection, client.dsn, SlowSearch))
            assert await asyncio.to_thread(Waiting.middle.wait, 30)
            with closing(RestClient(server.url, "demo")) as other:
                assert 200 == (await asyncio.to_thread(other.create_table, ["sales"], "invoices")).status
            assert ["sales.orders"] == [path(each) for each in await asyncio.to_thread(client.search_now, "orders")]
            await asyncio.sleep(2 * asynchronous_projections.FLUSH_SECONDS)
            Waiting.going_on.set()
            await rebuilding
            await caught_up(client.dsn, "search")

    asyncio.run(rebuilt())
    assert ["sales.orders"] == [path(each) for each in client.search_now("orders")]
    assert ["sales.invoices"] == [path(each) for each in client.search_now("invoices")]
    assert [] == [each for each in asyncio.run(verify(client.dsn)).differences if each.table.startswith("search")]
