"""Protection of namespaces, tables and views over HTTP, and the listings that show it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.approval.contract import Hold
from icecore.commands.protection.set_protection import set_table_protection
from icecore.compose import Application
from icecore.domain.commands import SetTableProtection
from icecore.domain.errors import CatalogError, NoSuchTable
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.projections import names
from icecore.projections.verify import verify
from icecore.queries.list_tabulars import list_tables
from icecore.queries.results import PageRequest
from tests.fixtures.catalog import PROJECT_ID, CatalogServer, context, opened_catalog, served_catalog
from tests.fixtures.command_runs import CommandRun, Step
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestClient, RestResponse, namespace_path, set_properties, table_path, view_path
from tests.integration.approval.judging import Judge, asking

KINDS = ("namespace", "table", "view")
TYPES = {"namespace": "NamespaceProtectedException", "table": "TableProtectedException", "view": "ViewProtectedException"}
MISSING = {"namespace": "NoSuchNamespaceException", "table": "NoSuchTableException", "view": "NoSuchViewException"}
# The namespace `e` is empty.
NAMES = {"namespace": "e", "table": "t", "view": "v"}
PATHS = {"namespace": namespace_path(["e"]), "table": table_path(["n"], "t"), "view": view_path(["n"], "v")}
LISTS = {"namespace": "/namespaces", "table": "/namespaces/n/tables", "view": "/namespaces/n/views"}
BOTH = "returnUuids=true&returnProtectionStatus=true"
HELD = "table-uuids", "namespace-uuids", "protection-status"


class Protecting(RestClient):
    """Requests for the protection of the namespace `e`, the table `n.t` and the view `n.v`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.warehouse_id = self.call_root("GET", "/config?warehouse=demo").json["overrides"]["prefix"]

    def management(self, method: str, path: str, body: Any = None, *, key: object = None) -> RestResponse:
        root, self._root = self._root, "/management/v1/warehouse"
        try:
            return self.call_root(method, path, body, key=key)
        finally:
            self._root = root

    def object_id(self, kind: str) -> str:
        return self.described(kind)[NAMES[kind]][0]

    def described(self, kind: str) -> dict[str, tuple[str, bool]]:
        return described(self, kind)

    def protection(self, kind: str, protected: bool | None = None, *, key: object = None, object_id: str | None = None) -> RestResponse:
        """Reads the protection, or sets it."""
        path = f"/{self.warehouse_id}/{kind}/{object_id or self.object_id(kind)}/protection"
        if protected is None:
            return self.management("GET", path)
        return self.management("POST", path, {"protected": protected}, key=key)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "warehouse") as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[Protecting]:
    with closing(Protecting(server.url)) as opened:
        filled(opened)
        yield opened


def described(client: RestClient, kind: str) -> dict[str, tuple[str, bool]]:
    """The ids and the protection by name, as listed."""
    listed = client.call("GET", f"{LISTS[kind]}?{BOTH}").json
    found = [each[-1] for each in listed["namespaces"]] if kind == "namespace" else [each["name"] for each in listed["identifiers"]]
    uuids = listed["namespace-uuids" if kind == "namespace" else "table-uuids"]
    return dict(zip(found, zip(uuids, listed["protection-status"], strict=True), strict=True))


def filled(client: RestClient) -> None:
    done = [client.create_namespace("n"), client.create_namespace("e"), client.create_table(["n"], "t"), client.create_view(["n"], "v")]
    assert [200] * 4 == [each.status for each in done]


def log(dsn: str) -> list[tuple[str, Any]]:
    """Topic and state of every event of protection, oldest first."""
    query = """select topic, convert_from(state, 'utf8')::jsonb from icecore.events
               where topic like '%.protection-changed.v1' order by notification_id"""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("kind", KINDS)
def test_a_protected_object_is_dropped_by_force_only(client: Protecting, server: CatalogServer, kind: str) -> None:
    """Also after its protection is removed. A new object is not protected."""
    assert (False, True) == (client.protection(kind).json["protected"], client.protection(kind).json["updated_at"] is not None)
    done = client.protection(kind, True)
    assert (200, True) == (done.status, done.json["protected"])
    assert done.json == client.protection(kind).json
    for query in ("", "?force=false", "?force="):
        assert (409, TYPES[kind]) == client.call("DELETE", PATHS[kind] + query).error
    assert (400, "BadRequestException") == client.call("DELETE", f"{PATHS[kind]}?force=maybe").error
    assert 204 == client.call("HEAD", PATHS[kind]).status
    assert 204 == client.call("DELETE", f"{PATHS[kind]}?force=true").status
    assert 404 == client.call("HEAD", PATHS[kind]).status
    assert [(f"{kind}.protection-changed.v1", {"protected": True})] == log(server.dsn)
    assert asyncio.run(verify(server.dsn)).ok


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_whose_protection_is_removed_is_dropped(client: Protecting, server: CatalogServer, kind: str) -> None:
    assert [200, 200] == [client.protection(kind, each).status for each in (True, False)]
    assert client.protection(kind).json["protected"] is False
    assert 204 == client.call("DELETE", PATHS[kind]).status
    assert [True, False] == [state["protected"] for _, state in log(server.dsn)]


def test_a_protected_table_is_unregistered_and_purged_by_force_only(client: Protecting) -> None:
    client.protection("table", True)
    unregister = f"{PATHS['table']}/unregister"
    assert (409, TYPES["table"]) == client.call("POST", unregister).error
    assert (409, TYPES["table"]) == client.drop_table(["n"], "t", "?purgeRequested=true").error
    location = client.call("POST", f"{unregister}?force=true").json["metadata-location"]
    registered = client.call("POST", "/namespaces/n/register", {"name": "t", "metadata-location": location})
    assert 200 == registered.status
    assert client.protection("table").json["protected"] is False, "a registration is a new object"


def test_force_does_not_drop_what_a_namespace_contains(client: Protecting) -> None:
    """A protected namespace with content is refused as protected, and with force because it is not empty."""
    assert 200 == client.protection("namespace", True, object_id=client.described("namespace")["n"][0]).status
    assert (409, TYPES["namespace"]) == client.call("DELETE", "/namespaces/n").error
    assert (409, "NamespaceNotEmptyException") == client.call("DELETE", "/namespaces/n?force=true").error


def test_the_content_of_a_protected_namespace_is_not_protected(client: Protecting) -> None:
    client.protection("namespace", True, object_id=client.described("namespace")["n"][0])
    assert [204, 204] == [client.call("DELETE", PATHS[kind]).status for kind in ("table", "view")]


def test_what_happens_to_a_protected_object_keeps_its_protection(client: Protecting, server: CatalogServer) -> None:
    """Commits, renames, overwrites and changes of properties are allowed. Lakekeeper lost the protection of a view at its commit."""
    for kind in KINDS:
        assert 200 == client.protection(kind, True).status
    commit = {"requirements": [], "updates": [set_properties(a="1")]}
    assert [200, 200] == [client.call("POST", PATHS[kind], commit).status for kind in ("table", "view")]
    other = client.create_table(["e"], "other").json["metadata-location"]
    assert 204 == client.drop_table(["e"], "other").status
    overwrite = {"name": "t", "metadata-location": other, "overwrite": True}
    assert 200 == client.call("POST", "/namespaces/n/register", overwrite).status
    assert 200 == client.call("POST", f"{PATHS['namespace']}/properties", {"updates": {"a": "1"}}).status
    assert 204 == client.rename_table((["n"], "t"), (["e"], "u")).status
    assert 204 == client.rename_view((["n"], "v"), (["e"], "w")).status
    assert (409, TYPES["table"]) == client.call("DELETE", table_path(["e"], "u")).error
    assert (409, TYPES["view"]) == client.call("DELETE", view_path(["e"], "w")).error
    assert (409, TYPES["namespace"]) == client.call("DELETE", PATHS["namespace"]).error
    listed = client.call("GET", f"/namespaces/e/tables?{BOTH}").json
    assert [True] == listed["protection-status"]
    # A new object under the old name is not protected.
    assert 200 == client.create_table(["n"], "t").status
    assert client.protection("table").json["protected"] is False
    assert asyncio.run(verify(server.dsn)).ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_that_is_none_writes_no_event(client: Protecting, server: CatalogServer, kind: str) -> None:
    """The time is still that of the object's last event."""
    before = client.protection(kind).json
    done = client.protection(kind, False)
    assert (200, before) == (done.status, done.json)
    assert 200 == client.create_namespace("later").status
    assert before == client.protection(kind, False).json
    assert [] == log(server.dsn)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_gets_its_response_again(client: Protecting, server: CatalogServer, kind: str) -> None:
    """Also after a later change. Another body under the key is refused."""
    key = uuid4()
    first = client.protection(kind, True, key=key)
    assert 200 == client.protection(kind, False).status
    assert first.replayable == client.protection(kind, True, key=key).replayable
    assert (422, "UnprocessableEntityException") == client.protection(kind, False, key=key).error
    assert [True, False] == [state["protected"] for _, state in log(server.dsn)]


def test_force_is_part_of_a_request_under_a_key(client: Protecting) -> None:
    """A refused drop is refused again; the same key with `force` is another request."""
    client.protection("table", True)
    key = uuid4()
    for _ in range(2):
        assert (409, TYPES["table"]) == client.call("DELETE", PATHS["table"], key=key).error
    assert (422, "UnprocessableEntityException") == client.call("DELETE", f"{PATHS['table']}?force=true", key=key).error
    assert 204 == client.call("DELETE", f"{PATHS['table']}?force=true", key=uuid4()).status


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_refused_and_changes_nothing(client: Protecting, server: CatalogServer, kind: str) -> None:
    object_id, missing = client.object_id(kind), (404, MISSING[kind])
    path = f"/{client.warehouse_id}/{kind}/{object_id}/protection"
    for body in ({}, {"protected": "yes"}, {"protected": None}, {"protect": True}, {"protected": True, "more": 1}):
        assert (400, "BadRequestException") == client.management("POST", path, body).error
    assert (400, "BadRequestException") == client.management("GET", f"{path}?force=true").error
    for wrong in ("x", str(uuid4()), client.warehouse_id, *(client.object_id(each) for each in KINDS if each != kind)):
        assert missing == client.protection(kind, object_id=wrong).error
        assert missing == client.protection(kind, True, object_id=wrong).error
    for warehouse in ("demo", str(uuid4())):
        other = f"/{warehouse}/{kind}/{object_id}/protection"
        assert (404, "NoSuchWarehouseException") == client.management("GET", other).error
        assert (404, "NoSuchWarehouseException") == client.management("POST", other, {"protected": True}).error
    assert (405, "MethodNotAllowedException") == client.management("DELETE", path).error
    assert 204 == client.call("DELETE", PATHS[kind]).status
    for protected in (None, True):
        assert missing == client.protection(kind, protected, object_id=object_id).error
    assert [] == log(server.dsn)


def test_an_object_of_another_warehouse_does_not_exist(client: Protecting, server: CatalogServer, tmp_path: Path) -> None:
    """Its id alone is not enough."""
    with (
        served_catalog(server.dsn, tmp_path / "warehouse", local_warehouse_roots=(tmp_path,)) as second,
        closing(Protecting(second.url)) as other,
    ):
        profile = {"type": "local", "directory": str(tmp_path / "other")}
        made = other.management("POST", "", {"warehouse-name": "other", "storage-profile": profile})
        assert 201 == made.status
        for kind in KINDS:
            path = f"/{made.json['warehouse-id']}/{kind}/{client.object_id(kind)}/protection"
            assert (404, MISSING[kind]) == other.management("GET", path).error
            assert (404, MISSING[kind]) == other.management("POST", path, {"protected": True}).error
    assert [] == log(server.dsn)


def test_an_inactive_warehouse_has_no_protection_to_read_or_set(client: Protecting) -> None:
    table = client.object_id("table")
    assert 200 == client.management("POST", f"/{client.warehouse_id}/deactivate").status
    assert (404, "NoSuchWarehouseException") == client.protection("table", object_id=table).error
    assert (404, "NoSuchWarehouseException") == client.protection("table", True, object_id=table).error


def test_every_server_follows_a_change_at_once(client: Protecting, server: CatalogServer, tmp_path: Path) -> None:
    """Its cached listings, and the states from which it decides."""
    with served_catalog(server.dsn, tmp_path / "warehouse") as second, closing(Protecting(second.url)) as other:
        for kind in KINDS:
            object_id = client.object_id(kind)
            for protected in (True, False, True):
                # Both cache the listing, and the state of the object.
                for each in (client, other):
                    assert (object_id, not protected) == each.described(kind)[NAMES[kind]]
                (client if protected else other).protection(kind, protected)
                for each in (client, other):
                    assert protected is each.protection(kind).json["protected"]
                    assert (object_id, protected) == each.described(kind)[NAMES[kind]]
            assert (409, TYPES[kind]) == other.call("DELETE", PATHS[kind]).error


@pytest.mark.parametrize("kind", KINDS)
def test_a_listing_has_what_was_asked_for(client: Protecting, kind: str) -> None:
    """Without a parameter, or with `false`, it is as the specification has it."""
    uuids = "namespace-uuids" if kind == "namespace" else "table-uuids"
    plain = client.call("GET", LISTS[kind]).json
    assert plain.keys().isdisjoint(HELD)
    assert plain == client.call("GET", f"{LISTS[kind]}?returnUuids=false&returnProtectionStatus=False").json
    client.protection(kind, True)
    described = client.call("GET", f"{LISTS[kind]}?{BOTH}").json
    count = len(plain["namespaces" if kind == "namespace" else "identifiers"])
    assert plain == {name: value for name, value in described.items() if name not in HELD}
    assert (count, count) == (len(described[uuids]), len(described["protection-status"]))
    assert 1 == described["protection-status"].count(True)
    for query, member in (("returnUuids=TRUE", uuids), ("returnProtectionStatus=true", "protection-status")):
        listed = client.call("GET", f"{LISTS[kind]}?{query}").json
        assert {member: described[member]} == {name: value for name, value in listed.items() if name in HELD}
    for wrong in ("returnUuids=1", "returnProtectionStatus=yes"):
        assert (400, "BadRequestException") == client.call("GET", f"{LISTS[kind]}?{wrong}").error


async def test_a_change_of_protection_drops_only_the_listings_that_show_it(catalog: Application, database: str, tmp_path: Path) -> None:
    """One of the same kind. Names are cached on, as after any change that is none of a name."""
    warehouse, namespace = await resolve_warehouse(catalog.backends, PROJECT_ID, "demo"), NamespaceIdentifier(("a",))

    async def hits(*, with_objects: bool) -> tuple[int, list[bool] | None]:
        before = catalog.queries.cache.metrics.hits
        page = PageRequest(with_objects=with_objects)
        found = await list_tables(catalog.queries, context("listTables"), warehouse, namespace, page)
        return catalog.queries.cache.metrics.hits - before, found.protected

    async with opened_catalog(database, tmp_path / "warehouse") as other:
        run = await CommandRun.on(other)
        for step in (Step("create_namespace"), Step("create_table"), Step("create_view", 0, 2)):
            assert not isinstance(await run.step(step), CatalogError)
        for _ in range(2):
            # The first read of the log empties the cache.
            await hits(with_objects=False)
            await hits(with_objects=True)
        assert [(1, None), (1, [False])] == [await hits(with_objects=each) for each in (False, True)]
        await run.step(Step("protect_view", 0, 2, 1))
        assert [(1, None), (1, [False])] == [await hits(with_objects=each) for each in (False, True)]
        await run.step(Step("protect_table", 0, 0, 1))
    assert [(1, None), (0, [True])] == [await hits(with_objects=each) for each in (False, True)]
    assert (1, [True]) == await hits(with_objects=True)


def test_ids_are_those_of_the_events(client: Protecting, server: CatalogServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        found = dict(connection.execute("select kind || ' ' || name, object_id from icecore.names").fetchall())
    assert found == {f"warehouse {client.warehouse}": UUID(client.warehouse_id)} | {
        f"{kind} {name}": UUID(object_id) for kind in KINDS for name, (object_id, _) in client.described(kind).items()
    }


def test_pages_have_the_ids_and_the_protection_of_their_items(client: Protecting) -> None:
    """In the order of the names."""
    for number in range(5):
        assert 200 == client.create_table(["n"], f"p{number}").status
    every = client.described("table")
    for name in ("p1", "p4"):
        assert 200 == client.protection("table", True, object_id=every[name][0]).status
    expected = {name: (object_id, name in ("p1", "p4")) for name, (object_id, _) in every.items()}
    paged: dict[str, tuple[str, bool]] = {}
    token: str | None = ""
    while token is not None:
        page = client.call("GET", f"{LISTS['table']}?{BOTH}&pageSize=2&pageToken={token}").json
        found = [each["name"] for each in page["identifiers"]]
        assert len(found) <= 2
        paged |= dict(zip(found, zip(page["table-uuids"], page["protection-status"], strict=True), strict=True))
        token = page["next-page-token"]
    assert expected == paged


def test_a_long_listing_is_read_in_steps(client: Protecting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one moment, as the names are."""
    for number in range(6):
        assert 200 == client.create_namespace(f"p{number}").status
    client.protection("namespace", True, object_id=client.described("namespace")["p3"][0])
    expected = client.described("namespace")
    assert ["p3"] == [name for name, (_, protected) in expected.items() if protected]
    monkeypatch.setattr(names, "NAMES_PAGE_SIZE", 3)
    # Another key of the cache.
    client.create_namespace("q")
    listed = client.described("namespace")
    assert expected == {name: each for name, each in listed.items() if name != "q"}
    plain = client.call("GET", "/namespaces").json
    assert [[name] for name in listed] == plain["namespaces"]


def test_a_past_state_has_the_protection_of_that_time(client: Protecting) -> None:
    before = client.create_namespace("x").position
    at = {kind: client.protection(kind, True).position for kind in KINDS}
    for kind in KINDS:
        client.protection(kind, False)
    for kind in KINDS:
        for position, protected in ((before, False), (at[kind], True)):
            past = described(client.at(position), kind)
            assert protected == past[NAMES[kind]][1], (kind, position)


def test_a_hook_holds_a_change_until_it_is_approved(database: str, tmp_path: Path) -> None:
    """As every change of a namespace, table or view. The same holds for a drop by force, which is then executed by force."""
    judge = Judge()
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge)) as served, closing(Protecting(served.url)) as client:
        filled(client)
        judge.always(Hold("wait", 60.0))
        for kind in KINDS:
            held = client.protection(kind, True)
            assert (409, "ChangeHeldException") == held.error
            assert client.protection(kind).json["protected"] is False
            shown = judge.shown[-1]
            assert (f"set{kind.capitalize()}Protection", (f"{kind}.protection-changed.v1",)) == (shown.operation, shown.objects[0].topics)
            approve(client, held)
            assert client.protection(kind).json["protected"] is True
            refused = client.call("DELETE", PATHS[kind])
            assert (409, TYPES[kind]) == refused.error, "decided before hooks are asked"
            held = client.call("DELETE", f"{PATHS[kind]}?force=true")
            assert (409, "ChangeHeldException") == held.error
            assert 204 == client.call("HEAD", PATHS[kind]).status
            approve(client, held)
            assert 404 == client.call("HEAD", PATHS[kind]).status


def approve(client: RestClient, held: RestResponse) -> None:
    root, client._root = client._root, "/management/v1/proposals"
    try:
        assert 200 == client.call_root("POST", f"/{held.headers['icecore-proposal']}/approve").status
    finally:
        client._root = root


def test_the_command_line_protects_as_the_server_does(client: Protecting, server: CatalogServer) -> None:
    """By name or id. The server follows at its next request."""
    named = {"namespace": "e", "table": "demo:n.t", "view": f"demo:{client.object_id('view')}"}
    for kind in KINDS:
        object_id = client.object_id(kind)
        done = icecore(server.dsn, kind, "protect", named[kind])
        assert (0, f"{named[kind]}  {object_id}  protected\n", "") == (done.returncode, done.stdout, done.stderr)
        assert (object_id, True) == client.described(kind)[NAMES[kind]]
        assert (409, TYPES[kind]) == client.call("DELETE", PATHS[kind]).error
        done = icecore(server.dsn, kind, "protect", named[kind], "--off", "--json")
        expected = {"kind": kind, "id": object_id, "warehouse-id": client.warehouse_id, "protected": False}
        assert (0, expected) == (done.returncode, json.loads(done.stdout))
        assert (object_id, False) == client.described(kind)[NAMES[kind]]
    assert [True, False] * 3 == [state["protected"] for _, state in log(server.dsn)]


def test_a_mistake_at_the_command_line_changes_nothing(client: Protecting, server: CatalogServer) -> None:
    """One line with the reason."""
    for arguments, code, message in (
        (["table", "protect", "n.missing"], 1, "icecore: Table does not exist: n.missing"),
        (["table", "protect", "n.v"], 1, "icecore: Table does not exist: n.v"),
        (["view", "protect", str(uuid4())], 1, "icecore: View does not exist"),
        (["namespace", "protect", "nowhere:n"], 1, "icecore: Warehouse does not exist: nowhere"),
        (["table", "protect", "t"], 2, "a table is named [WAREHOUSE:]NAMESPACE.TABLE, or by its id"),
        (["view", "protect", "demo@1:n.v"], 2, "name the warehouse without a position or time"),
    ):
        done = icecore(server.dsn, *arguments)
        assert (code, "") == (done.returncode, done.stdout), (arguments, done.stderr)
        assert message in done.stderr
        assert 1 == len(done.stderr.splitlines())
    assert [] == log(server.dsn)


async def test_what_is_dropped_after_it_was_found_does_not_exist(
    catalog: Application, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is being purged still has its locations, and gets no event."""
    run = await CommandRun.on(catalog)
    for step in (Step("create_namespace"), Step("create_table")):
        assert not isinstance(await run.step(step), Exception)
    with psycopg.connect(database) as connection:
        ((table_id,),) = connection.execute("select table_id from icecore.tables").fetchall()
    found, calls = catalog.commands.resolver.object_by_id, 0

    async def dropped_then(*given: Any) -> Any:
        nonlocal calls
        stream = await found(*given)
        calls += 1
        if calls == 1:
            assert not isinstance(await run.step(Step("purge_table")), Exception)
        return stream

    monkeypatch.setattr(catalog.commands.resolver, "object_by_id", dropped_then)
    command = SetTableProtection(table_id, protected=True)
    with pytest.raises(NoSuchTable):
        await set_table_protection(catalog.commands, context("setTableProtection"), run.warehouse, command)
