"""Soft deletion: drop, list, undrop and expiry of tables and views, over HTTP and with the jobs of two processes."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import structlog

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.execution.append_request import AppendRequest, AppendResult
from icecore.commands.execution.clock import now_ms
from icecore.commands.execution.retry_pauses import PAUSE_SECONDS_MIN
from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.commands.namespaces.drop_namespace_tree import drop_namespace_tree, plan_namespace_drop
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.tables.create_table import create_table
from icecore.commands.tables.drop_table import drop_table
from icecore.commands.tabulars.undrop_tabulars import undrop_tabulars
from icecore.commands.views.create_view import create_view
from icecore.commands.views.drop_view import drop_view
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import (
    CommitTable,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    UndropTabulars,
    UndropTarget,
)
from icecore.domain.errors import CatalogError, NamespaceNotEmpty, NoSuchTable, TabularExpired, WarehouseReadOnly
from icecore.domain.identifiers import NamespaceIdentifier, TabularIdentifier
from icecore.domain.warehouse import DeleteProfile, SetWarehouseReadOnly, UpdateWarehouseDeleteProfile
from icecore.projections import soft_deleted
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from icecore.storage.large_documents import LARGE_BYTES_MIN
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, before_append, context, opened_catalog, served_catalog
from tests.fixtures.clocks import clocks_behind
from tests.fixtures.operator_commands import Operator, icecore, operator_on, read_json
from tests.fixtures.rest_client import SCHEMA, RestResponse, set_properties, table_path, view_path, view_version
from tests.fixtures.snapshots import manifest_list as empty_list
from tests.integration.test_warehouse_changes import Management

CHECKOUT = Path(__file__).parents[2]
NOT_EMPTY = (409, "NamespaceNotEmptyException")
GONE = (404, "NoSuchTableException")
EXPIRED = (409, "TabularExpiredException")
TAKEN = (409, "AlreadyExistsException")
MISSING = (409, "FilesMissingException")
DAY = 86_400
SOFT = {"delete-profile": {"type": "soft", "expiration-seconds": 7 * DAY}}
HARD = {"delete-profile": {"type": "hard"}}


class Client(Management):
    """Requests about what is soft-deleted in the warehouse `demo`. dsn -- of the log."""

    dsn = ""

    def head(self) -> int:
        """The last position of the log."""
        with psycopg.connect(self.dsn) as connection:
            ((position,),) = connection.execute("select max(notification_id) from icecore.events").fetchall()
        return int(position)

    def soft_delete(self, seconds: int = 7 * DAY) -> None:
        profile = {"delete-profile": {"type": "soft", "expiration-seconds": seconds}}
        assert 200 == self.call_warehouse("POST", "/delete-profile", profile).status

    def deleted(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call_warehouse("GET", f"/deleted-tabulars{query}").json["tabulars"]
        return found

    def undrop(self, *targets: dict[str, Any] | tuple[str, Any], key: object = None, **more: Any) -> RestResponse:
        asked = [target if isinstance(target, dict) else {"type": target[0], "id": str(target[1])} for target in targets]
        return self.call_warehouse("POST", "/deleted-tabulars/undrop", {"targets": asked, **more}, key=key)

    def undrop_all(self) -> RestResponse:
        return self.undrop(*((each["typ"], each["id"]) for each in self.deleted()))

    def drop(self, name: str = "t", query: str = "") -> RestResponse:
        return self.call("DELETE", table_path(["n"], name) + query)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """Without jobs: each test runs those that it is about."""
    with served_catalog(database, tmp_path / "demo", jobs=False, local_warehouse_roots=(tmp_path,)) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Client]:
    with closing(Client(server.url)) as client:
        client.dsn = server.dsn
        assert 200 == client.create_namespace("n").status
        yield client


def topics(dsn: str, *wanted: str) -> list[str]:
    """The topics of all events of tables and views, or those wanted, in the order of the log."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select topic from icecore.events order by notification_id").fetchall()
    return [topic for (topic,) in found if topic.partition(".")[0] in ("table", "view") and (not wanted or topic in wanted)]


def checked(dsn: str) -> None:
    """All derived rows are those of the log, before and after a rebuild."""
    for _ in range(2):
        report = asyncio.run(verify(dsn))
        assert report.ok, str(report)
        asyncio.run(rebuild(dsn))


# The warehouse's profile and default


def test_a_delete_profile_is_set_at_the_creation_and_later(client: Client, tmp_path: Path) -> None:
    """As Lakekeeper writes it. Setting the same again appends nothing."""
    assert [HARD["delete-profile"], False] == client.loaded("delete-profile", "purge-default")
    changed = client.call_warehouse("POST", "/delete-profile", SOFT)
    assert (200, SOFT["delete-profile"]) == (changed.status, changed.json["delete-profile"])
    assert changed.position == client.call_warehouse("POST", "/delete-profile", SOFT).position
    assert HARD["delete-profile"] == client.call_warehouse("POST", "/delete-profile", HARD).json["delete-profile"]
    purge = client.call_warehouse("POST", "/purge-default", {"purge-default": True})
    assert (200, True) == (purge.status, purge.json["purge-default"])
    body = {
        "warehouse-name": "sea",
        "storage-profile": {"type": "local", "directory": str(tmp_path / "sea")},
        **SOFT,
        "purge-default": True,
    }
    created = client.call_management("POST", "", body)
    assert (201, SOFT["delete-profile"], True) == (created.status, created.json["delete-profile"], created.json["purge-default"])
    checked(client.dsn)


@pytest.mark.parametrize(
    "profile",
    [
        None,
        "soft",
        {},
        {"type": "gone"},
        {"type": "soft"},
        {"type": "soft", "expiration-seconds": 0},
        {"type": "soft", "expiration-seconds": -1},
        {"type": "soft", "expiration-seconds": 1.5},
        {"type": "soft", "expiration-seconds": True},
        {"type": "soft", "expiration-seconds": 10**12},
        {"type": "hard", "more": 1},
        {"type": "soft", "expiration-seconds": 5, "more": 1},
    ],
)
def test_a_wrong_profile_is_refused(client: Client, profile: Any) -> None:
    assert (400, "BadRequestException") == client.call_warehouse("POST", "/delete-profile", {"delete-profile": profile}).error
    assert [HARD["delete-profile"]] == client.loaded("delete-profile")


@pytest.mark.parametrize("body", [{}, {"purge-default": "yes"}, {"purge-default": None}, {"purge": True}])
def test_a_wrong_purge_default_is_refused(client: Client, body: Any) -> None:
    assert (400, "BadRequestException") == client.call_warehouse("POST", "/purge-default", body).error
    assert [False] == client.loaded("purge-default")


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(("query", "explicit"), [("", None), ("?purgeRequested=true", True), ("?purgeRequested=False", False)])
def test_a_purge_that_is_not_said_is_the_warehouses_default(client: Client, default: bool, query: str, explicit: bool | None) -> None:
    """What the client says wins."""
    client.call_warehouse("POST", "/purge-default", {"purge-default": default})
    assert 200 == client.create_table(["n"], "t").status
    assert 204 == client.drop(query=query).status
    with psycopg.connect(client.dsn) as connection:
        (state,) = connection.execute("select status from icecore.tables order by position desc limit 1").fetchone() or ("",)
    assert ("purging" if (default if explicit is None else explicit) else "dropped") == state


# Drop


def test_what_is_soft_deleted_is_gone_for_clients_and_stays_in_place(client: Client) -> None:
    """Its name is free, its location is not, and its namespace and its warehouse cannot be dropped: the refusal names it."""
    client.soft_delete()
    location = client.create_table(["n"], "t").json["metadata"]["location"]
    assert 200 == client.create_view(["n"], "v").status
    position = client.head()
    assert [204, 204] == [client.drop().status, client.call("DELETE", view_path(["n"], "v")).status]
    assert GONE == client.load_table(["n"], "t").error
    assert ([], []) == (client.table_names("n"), client.view_names("n"))
    refused = client.create_table(["n"], "u", location=location)
    assert (400, "BadRequestException") == refused.error
    assert "may be soft-deleted" in refused.message
    for table_id in [each["id"] for each in client.deleted()]:
        for answer in (client.call("DELETE", "/namespaces/n"), client.call_warehouse("DELETE", "?force=true")):
            assert answer.error in (NOT_EMPTY, (409, "WarehouseNotEmptyException"))
            assert table_id in answer.message
            assert "n.t" in answer.message
    assert 200 == client.create_table(["n"], "t").status
    assert 200 == client.at(position).load_table(["n"], "t").status
    checked(client.dsn)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_forced_drop_is_final(client: Client, kind: str) -> None:
    """As in Lakekeeper. Its location is free, and its namespace can be dropped."""
    client.soft_delete()
    made = client.create_table(["n"], "x") if kind == "table" else client.create_view(["n"], "x")
    assert 200 == made.status
    path = table_path(["n"], "x") if kind == "table" else view_path(["n"], "x")
    assert (400, "BadRequestException") == client.call("DELETE", f"{path}?force=maybe").error
    assert 204 == client.call("DELETE", f"{path}?force=true").status
    assert [] == client.deleted()
    assert 200 == client.create_table(["n"], "y", location=made.json["metadata"]["location"]).status
    assert 204 == client.drop("y", "?force=true").status
    assert 204 == client.call("DELETE", "/namespaces/n").status


def test_the_expiry_is_fixed_at_the_drop(client: Client) -> None:
    """A later profile concerns later drops."""
    client.soft_delete(7 * DAY)
    for name in ("t", "u"):
        assert 200 == client.create_table(["n"], name).status
    before = time.time()
    assert 204 == client.drop("t").status
    client.soft_delete(DAY)
    assert 204 == client.drop("u").status
    client.call_warehouse("POST", "/delete-profile", HARD)
    expiries = {each["name"]: seconds_of(each["expiration-date"]) for each in client.deleted()}
    assert {"t", "u"} == expiries.keys()
    for name, days in (("t", 7), ("u", 1)):
        assert -1 < expiries[name] - before - days * DAY < 60


def seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# List


def test_what_is_soft_deleted_is_listed_in_pages(client: Client) -> None:
    """With its ids, names and times, of a warehouse and of one namespace; undropped and forced ones not."""
    client.soft_delete()
    assert 200 == client.call("POST", "/namespaces", {"namespace": ["n", "m"]}).status
    for name in ("a", "b", "c"):
        assert 200 == client.create_table(["n"], name).status
        assert 204 == client.drop(name, f"?purgeRequested={str(name == 'b').lower()}").status
    assert 200 == client.create_view(["n", "m"], "v").status
    assert 204 == client.call("DELETE", view_path(["n", "m"], "v")).status
    found = client.deleted()
    assert [("a", ["n"], "table"), ("b", ["n"], "table"), ("c", ["n"], "table"), ("v", ["n", "m"], "view")] == [
        (each["name"], each["namespace"], each["typ"]) for each in found
    ]
    assert [False, True, False, False] == [each["purge"] for each in found]
    expected = {"id", "name", "namespace", "typ", "warehouse-id", "created-at", "deleted-at", "expiration-date", "purge"}
    assert all(expected == each.keys() and each["warehouse-id"] == client.prefix for each in found)
    assert all(seconds_of(each["created-at"]) <= seconds_of(each["deleted-at"]) < seconds_of(each["expiration-date"]) for each in found)
    ids = namespace_ids(client)
    assert [["a", "b"], ["c", "v"]] == pages_of_two(client)
    assert [["a", "b"], ["c"]] == pages_of_two(client, f"&namespaceId={ids['n']}")
    assert ["v"] == [each["name"] for each in client.deleted(f"?namespaceId={ids['m']}")]
    assert [("a", False), ("b", True), ("c", False)] == [
        (each["name"], each["purge"]) for each in client.deleted(f"?namespaceId={ids['n']}")
    ]
    assert 204 == client.undrop(("table", found[1]["id"])).status
    assert ["a", "c", "v"] == [each["name"] for each in client.deleted()]


def pages_of_two(client: Client, query: str = "") -> list[list[str]]:
    """The names on all pages. There must be few."""
    pages: list[list[str]] = []
    token = ""
    while token is not None and len(pages) < 5:
        page = client.call_warehouse("GET", f"/deleted-tabulars?pageSize=2&pageToken={token}{query}").json
        pages.append([each["name"] for each in page["tabulars"]])
        token = page["next-page-token"]
    assert token is None, pages
    return pages


def namespace_ids(client: Client) -> dict[str, str]:
    with psycopg.connect(client.dsn) as connection:
        return dict(connection.execute("select name, namespace_id::text from icecore.namespaces").fetchall())


def test_the_next_page_is_that_of_the_same_namespace(client: Client) -> None:
    """Another namespace's token is refused. A client that forgets the namespace would go on in the listing of the warehouse."""
    client.soft_delete()
    assert 200 == client.create_namespace("m").status
    for levels, name in ((["n"], "a"), (["m"], "x"), (["n"], "b")):
        assert 200 == client.create_table(levels, name).status
        assert 204 == client.call("DELETE", table_path(levels, name)).status
    ids = namespace_ids(client)
    first = client.call_warehouse("GET", f"/deleted-tabulars?namespaceId={ids['n']}&pageSize=1").json
    follow = f"?pageToken={first['next-page-token']}"
    assert ["b"] == [each["name"] for each in client.deleted(f"{follow}&namespaceId={ids['n']}")]
    for other in (follow, f"{follow}&namespaceId={ids['m']}"):
        assert (400, "BadRequestException") == client.call_warehouse("GET", f"/deleted-tabulars{other}").error


def test_wrong_listings_are_refused(client: Client) -> None:
    address = f"/{client.prefix}/deleted-tabulars"
    for query, error in (
        ("?pageToken=x", (400, "BadRequestException")),
        ("?pageSize=0", (400, "BadRequestException")),
        ("?namespace=n", (400, "BadRequestException")),
        (f"?namespaceId={uuid4()}", (404, "NoSuchNamespaceException")),
        ("?namespaceId=n", (404, "NoSuchNamespaceException")),
    ):
        assert error == client.call_management("GET", address + query).error, query
    assert (404, "NoSuchWarehouseException") == client.call_management("GET", f"/{uuid4()}/deleted-tabulars").error


# Undrop


def test_what_is_undropped_is_as_it_was(client: Client) -> None:
    """Under its id, with its content, for reads and commits. A requested purge is taken back."""
    client.soft_delete()
    assert 200 == client.create_table(["n"], "t").status
    assert 200 == client.commit(["n"], "t", set_properties(kept="1")).status
    assert 200 == client.create_view(["n"], "v").status
    before = (client.load_table(["n"], "t").json, client.load_view(["n"], "v").json)
    assert 204 == client.drop(query="?purgeRequested=true").status
    assert 204 == client.call("DELETE", view_path(["n"], "v")).status
    key = uuid4()
    targets = [(each["typ"], each["id"]) for each in client.deleted()]
    undropped = client.undrop(*targets, key=key)
    assert (204, b"") == (undropped.status, undropped.body)
    assert undropped.replayable == client.undrop(*targets, key=key).replayable
    assert before == (client.load_table(["n"], "t").json, client.load_view(["n"], "v").json)
    assert (["t"], ["v"], []) == (client.table_names("n"), client.view_names("n"), client.deleted())
    assert 200 == client.commit(["n"], "t", set_properties(after="1")).status
    # Dropped again, it waits for its new expiry, without the purge of the first drop.
    assert 204 == client.drop().status
    assert ["t"] == [each["name"] for each in client.deleted()]
    with psycopg.connect(client.dsn) as connection:
        assert (False,) == connection.execute("select purges from icecore.tables order by position desc limit 1").fetchone()
    checked(client.dsn)


def test_an_undrop_is_all_or_nothing(client: Client) -> None:
    """A name that is taken again, also by another target; something unknown or of another kind; a drop that was final.
    What is live already stays as it is, so that a request can be repeated, as in Lakekeeper.
    """
    client.soft_delete()
    for _ in range(2):
        assert 200 == client.create_table(["n"], "t").status
        assert 204 == client.drop().status
    for name in ("u", "final"):
        assert 200 == client.create_table(["n"], name).status
    with psycopg.connect(client.dsn) as connection:
        ids = dict(connection.execute("select name, table_id::text from icecore.tables where name in ('u', 'final')").fetchall())
    assert 204 == client.drop("final", "?force=true").status
    first, second = [("table", each["id"]) for each in client.deleted()]
    head = client.head()
    for targets, error in (
        ([first, second], TAKEN),
        ([first, ("table", uuid4())], GONE),
        ([first, ("view", second[1])], (404, "NoSuchViewException")),
        ([first, ("table", ids["final"])], EXPIRED),
        ([first, first], (400, "BadRequestException")),
        ([first, ("generic-table", second[1])], (400, "BadRequestException")),
        ([first, ("table", "x")], (400, "BadRequestException")),
        ([("table", uuid4())] * 101, (400, "BadRequestException")),
    ):
        assert error == client.undrop(*targets).error, targets
    assert (400, "BadRequestException") == client.undrop(first, forced=True).error
    assert (400, "BadRequestException") == client.undrop({"type": "table"}).error
    for unchanged in ([], [("table", ids["u"])]):
        assert 204 == client.undrop(*unchanged).status
    assert head == client.head()
    assert 2 == len(client.deleted())
    assert 204 == client.undrop(first, ("table", ids["u"])).status
    assert TAKEN == client.undrop(second).error
    assert 204 == client.undrop(first).status
    assert head + 1 == client.head()
    assert 204 == client.drop("t", "?force=true").status
    assert 204 == client.undrop(second).status


def test_a_table_of_another_warehouse_is_not_undropped(client: Client, tmp_path: Path) -> None:
    client.soft_delete()
    assert 200 == client.create_table(["n"], "t").status
    assert 204 == client.drop().status
    (found,) = client.deleted()
    body = {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": str(tmp_path / "sea")}}
    other = client.call_management("POST", "", body).json["id"]
    asked = {"targets": [{"type": "table", "id": found["id"]}]}
    assert GONE == client.call_management("POST", f"/{other}/deleted-tabulars/undrop", asked).error
    assert [] == client.call_management("GET", f"/{other}/deleted-tabulars").json["tabulars"]


def test_an_id_of_another_kind_leaves_the_object_as_it_was(client: Client, server: CatalogServer, tmp_path: Path) -> None:
    """On a server that has not used the object yet: its commands are not decided on the state of another kind."""
    client.soft_delete()
    table_id = client.create_table(["n"], "t").json["metadata"]["table-uuid"]
    with psycopg.connect(client.dsn) as connection:
        ((namespace_id,),) = connection.execute("select namespace_id::text from icecore.namespaces").fetchall()
    with served_catalog(server.dsn, tmp_path / "demo", jobs=False) as second, closing(Client(second.url)) as other:
        for target in (("view", table_id), ("table", namespace_id), ("view", namespace_id)):
            assert 404 == other.undrop(target, force=True).status
        assert 200 == other.commit(["n"], "t", set_properties(k="v")).status
        assert 200 == other.call("POST", "/namespaces/n/properties", {"updates": {"k": "v"}}).status


def test_a_change_by_a_server_from_before_keeps_what_it_does_not_know(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without migrations 0008 and 0010 writes rows without their columns."""
    client.soft_delete()
    assert 200 == client.call_warehouse("POST", "/purge-default", {"purge-default": True}).status
    assert 200 == client.call_warehouse("POST", "/read-only", {"read-only": True}).status
    to_json = AppendRequest.to_json

    def of_before(append_request: AppendRequest, blobs: list[bytes]) -> Any:
        written = to_json(append_request, blobs)
        for row in written["rows"]["warehouses"]:
            for column in ("read_only", "purge_default", "expiration_seconds"):
                del row[column]
        return written

    monkeypatch.setattr(AppendRequest, "to_json", of_before)
    assert 200 == client.call_warehouse("POST", "/protection", {"protected": True}).status
    monkeypatch.undo()
    assert [SOFT["delete-profile"], True, True, True] == client.loaded("delete-profile", "purge-default", "read-only", "protected")
    checked(client.dsn)


def test_files_that_are_missing_are_named(client: Client, server: CatalogServer) -> None:
    """The metadata file and the manifest list of the current snapshot; nothing changes, unless it is forced. For the other files see
    test_undrop_files.py.
    """
    client.soft_delete()
    created = client.create_table(["n"], "t").json
    manifest_list = f"{created['metadata']['location']}/metadata/snap-1.avro"
    snapshot = {
        "snapshot-id": 1,
        "timestamp-ms": now_ms(),
        "sequence-number": 1,
        "manifest-list": manifest_list,
        "summary": {"operation": "append"},
    }
    add = {"action": "add-snapshot", "snapshot": snapshot}
    branch = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    committed = client.commit(["n"], "t", add, branch)
    assert 200 == committed.status, committed.body
    assert 204 == client.drop().status
    (found,) = client.deleted()
    target = ("table", found["id"])
    refused = client.undrop(target)
    assert MISSING == refused.error
    assert manifest_list in refused.message
    empty_list(Path(manifest_list.removeprefix("file://")), [])
    metadata = Path(committed.json["metadata-location"].removeprefix("file://"))
    content = metadata.read_bytes()
    metadata.unlink()
    refused = client.undrop(target)
    assert MISSING == refused.error
    assert committed.json["metadata-location"] in refused.message
    assert manifest_list not in refused.message
    assert GONE == client.load_table(["n"], "t").error
    metadata.write_bytes(content)
    assert 204 == client.undrop(target).status
    assert 204 == client.drop().status
    metadata.unlink()
    assert 204 == client.undrop(target, force=True).status


def test_an_inactive_warehouse_is_listed_and_undropped(client: Client) -> None:
    """Its expiries go on, so its undrops do too."""
    client.soft_delete()
    assert 200 == client.create_table(["n"], "t").status
    assert 204 == client.drop().status
    assert 200 == client.call_warehouse("POST", "/deactivate").status
    assert ["t"] == [each["name"] for each in client.deleted()]
    assert 204 == client.undrop_all().status
    assert 200 == client.call_warehouse("POST", "/activate").status
    assert ["t"] == client.table_names("n")


# Expiry, with the job of one or two processes

TABLE = TabularIdentifier(NamespaceIdentifier(("n",)), "t")


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[tuple[Application, Application, Warehouse]]:
    """Two processes on one log. The warehouse soft-deletes for an hour and contains the table `n.t`."""
    async with AsyncExitStack() as opened:
        first, second = [await opened.enter_async_context(opened_catalog(database, tmp_path / "demo")) for _ in range(2)]
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        command = UpdateWarehouseDeleteProfile(DeleteProfile(3600))
        await change_warehouse(first.commands, context("updateWarehouseDeleteProfile"), warehouse, command)
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        await create_namespace(first.commands, context("createNamespace"), warehouse, CreateNamespace(TABLE.namespace, {}))
        await make_table(first, warehouse)
        yield first, second, warehouse


async def make_table(catalog: Application, warehouse: Warehouse, name: str = "t") -> None:
    table = CreateTable(TABLE.namespace, name, None, SCHEMA, None, None, {}, stage_create=False)
    await create_table(catalog.commands, context("createTable"), warehouse, table)


async def drop(catalog: Application, warehouse: Warehouse, ago_seconds: int, name: str = "t", *, purge: bool = False) -> UUID:
    """Drops a table by clocks that are behind. Returns its id."""
    with clocks_behind(catalog.commands, ago_seconds * 1000):
        await drop_table(catalog.commands, context("dropTable"), warehouse, DropTable(replace(TABLE, name=name), purge))
    async with catalog.backends.connection() as connection:
        found = await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    return max((each for each in found if each.name == name), key=lambda each: each.dropped_at).object_id


def undrop(catalog: Application, warehouse: Warehouse, *ids: UUID) -> Any:
    command = UndropTabulars([UndropTarget("table", table_id) for table_id in ids])
    return undrop_tabulars(catalog.commands, context("undropTabulars"), warehouse, command)


Processes = tuple[Application, Application, Warehouse]


async def test_what_is_due_expires_and_is_then_purged(processes: Processes, database: str) -> None:
    """Once, by one leader. Its namespace can then be dropped, and it cannot be undropped."""
    first, second, warehouse = processes
    await make_table(first, warehouse, "kept")
    table_id = await drop(first, warehouse, 3601, purge=True)
    kept = await drop(first, warehouse, 3601, "kept")
    with pytest.raises(NamespaceNotEmpty, match="kept"):
        await drop_namespace(first.commands, context("dropNamespace"), warehouse, DropNamespace(TABLE.namespace))
    folder = next(Path(warehouse.profile.base.text.removeprefix("file://")).rglob(str(table_id)))  # noqa: ASYNC240 - a moment
    assert [*folder.rglob("*.json")]
    assert 0 == await first.purge.run_once()
    assert 2 == sum(await asyncio.gather(first.soft_deletion.run_once(), second.soft_deletion.run_once()))
    assert 0 == await second.soft_deletion.run_once()
    for each in (table_id, kept):
        with pytest.raises(TabularExpired):
            await undrop(second, warehouse, each)
    assert 1 == await second.purge.run_once()
    assert [] == [*folder.rglob("*.json")]
    assert [*folder.parent.joinpath(str(kept)).rglob("*.json")], "its purge was not requested"
    assert ["table.expired.v1", "table.expired.v1", "table.purged.v1"] == topics(database, "table.expired.v1", "table.purged.v1")
    await drop_namespace(first.commands, context("dropNamespace"), warehouse, DropNamespace(TABLE.namespace))
    assert (await verify(database)).ok


@pytest.mark.parametrize("ago_seconds", [0, 3590])
async def test_nothing_expires_too_early(processes: Processes, ago_seconds: int) -> None:
    first, second, warehouse = processes
    await drop(first, warehouse, ago_seconds)
    assert [0, 0] == [await each.soft_deletion.run_once() for each in (first, second)]


async def test_in_a_read_only_warehouse_nothing_expires_and_nothing_is_undropped(processes: Processes) -> None:
    """Until the maintenance ends."""
    first, second, warehouse = processes
    table_id = await drop(first, warehouse, 3700)
    for read_only in (True, False):
        await change_warehouse(first.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(read_only))
        warehouse = await resolve_warehouse(first.backends, PROJECT_ID, "demo")
        if read_only:
            assert 0 == await second.soft_deletion.run_once()
            with pytest.raises(WarehouseReadOnly):
                await undrop(first, warehouse, table_id)
    assert 1 == await second.soft_deletion.run_once()


async def test_nothing_expires_after_the_warehouse_has_become_read_only(
    processes: Processes, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the job has read the table before. Whoever copies the warehouse meanwhile relies on it."""
    first, second, warehouse = processes
    await drop(first, warehouse, 3700)
    submit, submitted = second.commands.committer.submit, list[AppendRequest]()

    async def late(append_request: AppendRequest) -> AppendResult:
        submitted.append(append_request)
        await change_warehouse(first.commands, context("setWarehouseReadOnly"), warehouse, SetWarehouseReadOnly(True))
        return await submit(append_request)

    monkeypatch.setattr(second.commands.committer, "submit", late)
    assert 0 == await second.soft_deletion.run_once()
    assert 1 == len(submitted)
    assert [] == topics(database, "table.expired.v1")


async def test_the_memory_of_a_large_table_counts_until_it_has_expired(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else other requests use it meanwhile, and the process may run out of memory."""
    first, second, warehouse = processes
    large = CommitTable(TABLE, [], [set_properties(large="x" * (LARGE_BYTES_MIN + 1))])
    await commit_table(first.commands, context("updateTable"), warehouse, large)
    await drop(first, warehouse, 3700)
    submit, in_use = second.commands.committer.submit, list[int]()

    async def seen(append_request: AppendRequest) -> AppendResult:
        in_use.append(second.backends.large_documents._bytes_in_use)
        return await submit(append_request)

    monkeypatch.setattr(second.commands.committer, "submit", seen)
    assert 1 == await second.soft_deletion.run_once()
    assert 1 == len(in_use)
    assert in_use[0] > LARGE_BYTES_MIN
    assert 0 == second.backends.large_documents._bytes_in_use


async def test_a_process_whose_clock_is_ahead_expires_nothing_early(processes: Processes) -> None:
    """Postgres's clock counts too. One whose clock is behind waits; when neither is, it expires."""
    first, second, warehouse = processes
    await drop(first, warehouse, 3500)
    first.commands.now_ms = lambda: now_ms() + 1_000_000
    assert 0 == await first.soft_deletion.run_once()
    await make_table(second, warehouse, "u")
    await drop(second, warehouse, 3700, "u")
    second.commands.now_ms = lambda: now_ms() - 1_000_000
    assert 0 == await second.soft_deletion.run_once()
    assert 1 == await first.soft_deletion.run_once()


async def test_the_drop_of_a_process_whose_clock_is_ahead_is_by_its_own_clock(processes: Processes) -> None:
    """The later of the two clocks, so that nobody who reads the earlier one sees it expire early."""
    first, _, warehouse = processes
    first.commands.now_ms = lambda: now_ms() + 7_200_000
    began = now_ms()
    await drop_table(first.commands, context("dropTable"), warehouse, DropTable(TABLE, None))
    async with first.backends.connection() as connection:
        ((expires_at_ms,),) = await (await connection.execute("select expires_at_ms from icecore.soft_deleted")).fetchall()
    assert began + 10_800_000 <= expires_at_ms <= now_ms() + 10_800_000


async def test_the_drop_of_a_process_whose_clock_is_behind_expires_no_earlier(processes: Processes) -> None:
    """Of a tree, a table and a view: the later of its clock and Postgres's is the time of the drop."""
    first, second, warehouse = processes
    tree = NamespaceIdentifier(("tree",))
    await create_namespace(first.commands, context("createNamespace"), warehouse, CreateNamespace(tree, {}))
    view = CreateView(TABLE.namespace, "v", None, SCHEMA, view_version("select 1"), {})
    await create_view(first.commands, context("createView"), warehouse, view)
    first.commands.now_ms = lambda: now_ms() - 7_200_000
    earliest = now_ms() + 3_600_000 - 50
    drop = DropNamespace(tree, recursive=True)
    planned = await plan_namespace_drop(first.commands, context("dropNamespace"), warehouse, drop)
    assert planned.expires_at_ms is not None
    assert earliest <= planned.expires_at_ms
    await drop_namespace_tree(first.commands, context("dropNamespace"), warehouse, drop)
    await drop_table(first.commands, context("dropTable"), warehouse, DropTable(TABLE, None))
    await drop_view(first.commands, context("dropView"), warehouse, DropView(replace(TABLE, name="v")))
    assert [0, 0] == [await each.soft_deletion.run_once() for each in (first, second)]
    async with first.backends.connection() as connection:
        rows = await (await connection.execute("select kind, expires_at_ms from icecore.soft_deleted where to_position is null")).fetchall()
    assert {"table", "view", "namespace"} == {kind for kind, _ in rows}
    assert all(earliest <= expires_at_ms <= now_ms() + 3_600_000 + 50 for _, expires_at_ms in rows)


async def test_an_undrop_and_an_expiry_at_once_have_one_winner(processes: Processes, database: str) -> None:
    """Decided by the head of the stream: the other is refused, or does nothing."""
    first, second, warehouse = processes
    won = {"undropped": 0, "expired": 0}
    for number in range(10):
        name = f"t{number}"
        await make_table(first, warehouse, name)
        table_id = await drop(first, warehouse, 3700, name)

        async def undropped(table_id: UUID = table_id, delay: float = number / 1000) -> bool:
            await asyncio.sleep(delay)
            try:
                await undrop(first, warehouse, table_id)
            except TabularExpired:
                return False
            return True

        by_undrop, by_expiry = await asyncio.gather(undropped(), second.soft_deletion.run_once())
        assert by_undrop + by_expiry == 1
        won["undropped" if by_undrop else "expired"] += 1
    assert won["undropped"] == len(topics(database, "table.undropped.v1"))
    assert won["expired"] == len(topics(database, "table.expired.v1"))
    assert (await verify(database)).ok


async def test_the_expiry_that_comes_second_does_nothing(processes: Processes, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the table as soft-deleted when the undrop comes, and the other way round."""
    first, second, warehouse = processes
    submit = second.commands.committer.submit
    table_id = await drop(first, warehouse, 3700)

    async def late(append_request: Any) -> Any:
        await undrop(first, warehouse, table_id)
        return await submit(append_request)

    monkeypatch.setattr(second.commands.committer, "submit", late)
    assert 0 == await second.soft_deletion.run_once()
    monkeypatch.setattr(second.commands.committer, "submit", submit)
    assert ["table.undropped.v1"] == topics(database, "table.undropped.v1", "table.expired.v1")
    await drop(first, warehouse, 3700)
    append = first.commands.decision_writer.append

    async def later(*given: Any) -> Any:
        await second.soft_deletion.run_once()
        return await append(*given)

    monkeypatch.setattr(first.commands.decision_writer, "append", later)
    with pytest.raises(TabularExpired):
        await undrop(first, warehouse, table_id)
    assert ["table.undropped.v1", "table.expired.v1"] == topics(database, "table.undropped.v1", "table.expired.v1")


async def test_of_many_undrops_and_creates_one_gets_the_name(processes: Processes, database: str) -> None:
    """Two processes undrop the same table, and create one of its name. If one undrop succeeds, both do."""
    first, second, warehouse = processes
    table_id = await drop(first, warehouse, 0)
    works = [undrop(each, warehouse, table_id) for each in (first, second)] + [make_table(each, warehouse) for each in (first, second)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    succeeded = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert succeeded in ([0, 1], [2], [3])
    assert all(isinstance(outcome, CatalogError) for outcome in outcomes if isinstance(outcome, BaseException))
    assert (await verify(database)).ok


async def test_a_failure_delays_no_other_expiry(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again after a pause."""
    first, _, warehouse = processes
    await make_table(first, warehouse, "u")
    broken = await drop(first, warehouse, 3800)
    await drop(first, warehouse, 3700, "u")
    by_id = first.commands.resolver.table_by_id

    def failing(table_id: UUID, **options: bool) -> Any:
        if table_id == broken:
            raise NoSuchTable("broken")
        return by_id(table_id, **options)

    monkeypatch.setattr(first.commands.resolver, "table_by_id", failing)
    assert 1 == await first.soft_deletion.run_once()
    monkeypatch.setattr(first.commands.resolver, "table_by_id", by_id)
    assert 0 == await first.soft_deletion.run_once()
    await asyncio.sleep(PAUSE_SECONDS_MIN)
    assert 1 == await first.soft_deletion.run_once()


async def test_an_expiry_that_postgres_rejects_is_retried_after_a_pause(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not logged as expired."""
    first, _, warehouse = processes
    await drop(first, warehouse, 3700)
    submit, rejected = first.commands.committer.submit, 0

    async def reject(append_request: Any) -> Any:
        nonlocal rejected
        if append_request.context.operation != "expireSoftDeleted":
            return await submit(append_request)
        rejected += 1
        return AppendResult("error", 0, "rejected")

    monkeypatch.setattr(first.commands.committer, "submit", reject)
    with structlog.testing.capture_logs() as logs:
        assert [0, 0] == [await first.soft_deletion.run_once(), await first.soft_deletion.run_once()]
    logged = [each["event"] for each in logs]
    assert (1, 1, 0) == (rejected, logged.count("expiry_retrying"), logged.count("soft_deletion_expired"))
    monkeypatch.setattr(first.commands.committer, "submit", submit)
    await asyncio.sleep(PAUSE_SECONDS_MIN)
    assert 1 == await first.soft_deletion.run_once()


async def test_more_than_a_page_expires_in_one_round(processes: Processes) -> None:
    first, _, warehouse = processes
    for number in range(7):
        await make_table(first, warehouse, f"x{number}")
        await drop(first, warehouse, 3700, f"x{number}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("icecore.commands.tabulars.expire_soft_deleted._PAGE_SIZE", 3)
        assert 7 == await first.soft_deletion.run_once()


def test_the_listing_is_found_by_its_index(new_database: Callable[[], str]) -> None:
    """Neither a page nor the search for what is due reads what was undropped or has expired."""
    dsn = new_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into icecore.soft_deleted select 1, gen_random_uuid(), n, case when n % 100 > 0 then n + 1 end, "
            "'00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002', 'table', 't', n "
            "from generate_series(1, 20000) n"
        )
        connection.execute("analyze icecore.soft_deleted")
        for statement, index in (
            (
                "where generation = 1 and warehouse_id = '00000000-0000-0000-0000-000000000001' and to_position is null"
                " and object_id > '00000000-0000-0000-0000-000000000000' order by object_id limit 10",
                "soft_deleted_warehouse_idx",
            ),
            (
                "where generation = 1 and to_position is null and expires_at_ms <= 5000 order by expires_at_ms, object_id limit 10",
                "soft_deleted_expiry_idx",
            ),
        ):
            plan = "\n".join(row[0] for row in connection.execute(f"explain select * from icecore.soft_deleted {statement}".encode()))
            assert index in plan, plan


def test_an_operator_lists_and_undrops_at_the_command_line(client: Client, server: CatalogServer) -> None:
    """By the ids that the list shows. A refusal changes nothing."""

    def run(*arguments: str) -> tuple[int, str]:
        done = icecore(client.dsn, *arguments)
        return done.returncode, done.stdout + done.stderr

    named = f"demo  {client.prefix}  active, format versions 1, 2, 3"
    client.soft_delete(3600)
    assert 200 == client.create_table(["n"], "[t]").status
    assert 204 == client.drop("[t]", "?purgeRequested=true").status
    assert 200 == client.create_view(["n"], "v").status
    assert 204 == client.call("DELETE", view_path(["n"], "v")).status
    assert (0, f"{named}, soft deletion for 7d\n") == run("warehouse", "delete-profile", "demo", "--soft", "7d")
    assert (0, f"{named}, soft deletion for 7d, purge by default\n") == run("warehouse", "purge-default", "demo")
    assert 2 == run("warehouse", "delete-profile", "demo", "--hard", "--soft", "7d")[0]
    code, printed = run("table", "deleted", "demo", "--json")
    found = json.loads(printed)
    assert (0, [("table", ["n"], "[t]"), ("view", ["n"], "v")]) == (
        code,
        [(each["typ"], each["namespace"], each["name"]) for each in found],
    )
    ids = [each["id"] for each in found]
    # Another connection, because the server has closed one that was idle for so long.
    with closing(Client(server.url)) as again:
        (namespace_id,) = again.call("GET", "/namespaces?returnUuids=true").json["namespace-uuids"]
        assert [each.keys() for each in again.call_warehouse("GET", "/deleted-tabulars").json["tabulars"]] == [
            each.keys() for each in found
        ]
    code, printed = run("table", "deleted", "demo")
    assert 0 == code
    assert all(text in printed for text in ("n.[t]", "n.v", *ids, "deleted then", "kept"))
    table_expires, view_expires = (each["expiration-date"] for each in found)
    code, printed = run("log")
    assert f"soft-deleted until {table_expires}, then with its files\n" in printed, printed
    assert f"soft-deleted until {view_expires}\n" in printed
    assert "type soft, expiration-seconds 604800\n" in printed
    assert "purge true\n" in printed
    code, printed = run("undrop", "demo", *ids, unknown := str(uuid4()))
    assert (1, f"icecore: warehouse demo has no table, view or namespace with the id {unknown}\n") == (code, printed)
    assert 2 == run("undrop", "demo", ids[0], ids[0])[0]
    assert (0, "") == run("undrop", "demo", *ids)
    assert (0, "") == run("undrop", "demo", *ids), "the table and the view are live, so nothing is left to do"
    assert (0, "") == run("undrop", "demo", namespace_id), "the namespace is live"
    assert (0, "no table or view is soft-deleted\n") == run("table", "deleted", "demo")
    assert (0, f"{named}, hard deletion, purge by default\n") == run("warehouse", "delete-profile", "demo", "--hard")
    # Another connection, because the server has closed one that was idle for so long.
    with closing(Client(server.url)) as again:
        assert (["[t]"], ["v"]) == (again.table_names("n"), again.view_names("n"))


@pytest.fixture
def operator(server: CatalogServer) -> Operator:
    return operator_on(server.dsn)


@pytest.mark.parametrize("namespace_first", [True, False])
def test_a_namespace_is_undropped_alone_at_the_command_line(client: Client, operator: Operator, namespace_first: bool) -> None:
    """A table that is named beside it would stay soft-deleted, although the command succeeds. The refusal changes nothing."""
    client.soft_delete()
    assert 200 == client.create_namespace("m").status
    table_id = client.create_table(["n"], "t").json["metadata"]["table-uuid"]
    namespace_id = namespace_ids(client)["m"]
    assert [204, 204] == [client.drop().status, client.call("DELETE", "/namespaces/m?recursive=true").status]
    head = client.head()
    ids = (namespace_id, table_id) if namespace_first else (table_id, namespace_id)
    assert (2, "", "icecore: a namespace is undropped alone: give one id\n") == operator("undrop", "demo", *ids)
    assert head == client.head()


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_an_undrop_is_forced_at_the_command_line(client: Client, operator: Operator, kind: str) -> None:
    """Otherwise an operator who has lost one file could not get the table back."""
    client.soft_delete()
    created = client.create_table(["n"], "t").json
    ids = {"table": created["metadata"]["table-uuid"], "namespace": namespace_ids(client)["n"]}
    assert 204 == (client.drop() if kind == "table" else client.call("DELETE", "/namespaces/n?recursive=true")).status
    Path(created["metadata-location"].removeprefix("file://")).unlink()
    code, printed, said = operator("undrop", "demo", ids[kind])
    assert (1, "", True) == (code, printed, created["metadata-location"] in said), said
    assert (0, "", "") == operator("undrop", "demo", ids[kind], "--force")
    assert ["t"] == [each["name"] for each in read_json(operator, "table", "list", "demo", "n")]


@pytest.mark.parametrize("profile", [HARD, SOFT])
def test_the_log_shows_that_a_dropped_table_keeps_its_files(client: Client, operator: Operator, profile: dict[str, Any]) -> None:
    """Although a purge was requested. An operator who reads that the files go would not look for them."""
    assert 200 == client.call_warehouse("POST", "/delete-profile", profile).status
    for name, properties in (("kept", {"gc.enabled": "false"}), ("purged", {})):
        assert 200 == client.create_table(["n"], name, properties=properties).status
        assert 204 == client.drop(name, "?purgeRequested=true").status
    expiries = {each["name"]: f"soft-deleted until {each['expiration-date']}, then " for each in client.deleted()}
    _, printed, _ = operator("log")
    kept, purged = [line for line in printed.splitlines() if "table dropped" in line]
    assert kept.endswith(f"demo:n.kept v2  {expiries.get('kept', '')}keeps its files (gc.enabled=false)"), kept
    assert purged.endswith(f"demo:n.purged v2  {expiries.get('purged', '')}with its files"), purged


_JOB = """
import asyncio, sys
from pathlib import Path
from tests.fixtures.catalog import opened_catalog

async def run() -> None:
    async with opened_catalog(sys.argv[1], Path(sys.argv[2])) as catalog:
        await catalog.soft_deletion.run_once()

asyncio.run(run())
"""


@pytest.mark.parametrize(("point", "expired"), [("commit.before_append", 0), ("commit.after_append", 1)])
async def test_a_job_that_is_killed_loses_and_doubles_nothing(
    processes: Processes, database: str, tmp_path: Path, point: str, expired: int
) -> None:
    """Another process expires the rest, each once, and purges each once."""
    first, _, warehouse = processes
    await make_table(first, warehouse, "u")
    for name in ("t", "u"):
        await drop(first, warehouse, 3700, name, purge=True)
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _JOB, database, str(tmp_path / "demo"),
        cwd=CHECKOUT, env={**os.environ, "ICECORE_TEST_FAULT": f"{point}:kill"}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, printed = await killed.communicate()
    assert (-9, True) == (killed.returncode, f"fault_point {point} kill" in printed.decode())
    assert expired == len(topics(database, "table.expired.v1"))
    done = expired
    while done < 2:
        # Postgres may not have ended the killed process's session yet.
        done += await first.soft_deletion.run_once()
    assert 2 == await first.purge.run_once()
    assert 0 == await first.soft_deletion.run_once() + await first.purge.run_once()
    assert ["table.expired.v1"] * 2 + ["table.purged.v1"] * 2 == topics(database, "table.expired.v1", "table.purged.v1")
    assert (await verify(database)).ok


async def test_what_is_dropped_while_its_undrop_is_decided_is_undropped(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was live until then. The client is told that both tables are live, and they are."""
    first, second, warehouse = processes
    await make_table(first, warehouse, "u")
    table_ids = [await drop(first, warehouse, 0, name) for name in ("t", "u")]
    await undrop(first, warehouse, table_ids[0])
    appends = before_append(monkeypatch, first, lambda: drop(second, warehouse, 0))
    await undrop(first, warehouse, *table_ids)
    async with first.backends.connection() as connection:
        assert [] == await soft_deleted.list_soft_deleted(connection, warehouse.id, None, None, 100)
    assert 2 == len(appends)


async def test_a_process_that_dropped_a_table_commits_to_it_after_another_undropped_it(processes: Processes) -> None:
    """Its queue has the dropped state in memory."""
    first, second, warehouse = processes
    commit = CommitTable(TABLE, [], [set_properties(after="1")])
    for number in range(3):
        table_id = await drop(first, warehouse, 0)
        with pytest.raises(NoSuchTable):
            await commit_table(first.commands, context("updateTable"), warehouse, commit)
        await undrop(second, warehouse, table_id)
        response = await commit_table(
            first.commands, context("updateTable"), warehouse, replace(commit, updates=[set_properties(n=str(number))])
        )
        assert 200 == response.status


async def test_a_process_that_first_undrops_a_table_can_commit_to_it(processes: Processes) -> None:
    """An undrop reads less of a table than a commit needs, and its queue lives on."""
    first, second, warehouse = processes
    table_id = await drop(first, warehouse, 0)
    await undrop(second, warehouse, table_id)
    command = CommitTable(TABLE, [], [set_properties(after="1")])
    assert 200 == (await commit_table(second.commands, context("updateTable"), warehouse, command)).status


def test_what_is_live_is_undropped_whatever_its_files(client: Client) -> None:
    """It is as requested already, and is not looked at in the store."""
    client.soft_delete()
    created = client.create_table(["n"], "t").json
    Path(created["metadata-location"].removeprefix("file://")).unlink()
    assert 204 == client.undrop(("table", created["metadata"]["table-uuid"])).status


def test_a_namespace_of_another_warehouse_is_not_listed(client: Client, tmp_path: Path) -> None:
    client.soft_delete()
    assert 200 == client.create_table(["n"], "t").status
    assert 204 == client.drop().status
    with psycopg.connect(client.dsn) as connection:
        ((namespace_id,),) = connection.execute("select namespace_id from icecore.namespaces").fetchall()
    body = {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": str(tmp_path / "sea")}}
    other = client.call_management("POST", "", body).json["id"]
    refused = client.call_management("GET", f"/{other}/deleted-tabulars?namespaceId={namespace_id}")
    assert 404 == refused.status, refused.body
    assert (404, "NoSuchNamespaceException") == refused.error
