"""Recursive drop of namespaces with a dry run, and undrop and expiry of whole trees, over HTTP and with the jobs of two processes."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.operator_commands import icecore
from tests.fixtures.rest_client import RestClient, RestResponse, namespace_path, set_properties
from tests.integration.test_soft_deletion import DAY, HARD, NOT_EMPTY, TAKEN, Client, checked, seconds_of

GONE = (404, "NoSuchNamespaceException")
PROTECTED = (409, "NamespaceProtectedException")
SOFT_DELETED = (409, "NamespaceSoftDeletedException")
TREE_EXPIRED = (409, "NamespaceExpiredException")
TOO_LARGE = (400, "NamespaceTreeTooLargeException")


class TreeClient(Client):
    """Requests about trees of namespaces in the warehouse `demo`."""

    def build(self) -> None:
        """n with a table and a view, n.m with a table, and the empty n.m.k."""
        for levels in (["n", "m"], ["n", "m", "k"]):
            assert 200 == self.create_namespace(*levels).status
        for levels in (["n"], ["n", "m"]):
            assert 200 == self.create_table(levels, "t").status
        assert 200 == self.create_view(["n"], "v").status

    def drop_tree(self, *levels: str, query: str = "", key: object = None) -> RestResponse:
        return self.call("DELETE", f"{namespace_path(list(levels) or ['n'])}?recursive=true{query}", key=key)

    def plan(self, *levels: str, query: str = "") -> Any:
        answer = self.drop_tree(*levels, query=f"&dryRun=true{query}")
        assert 200 == answer.status, answer.body
        return answer.json

    def deleted_namespaces(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call_warehouse("GET", f"/deleted-namespaces{query}").json["namespaces"]
        return found

    def undrop_tree(self, namespace_id: Any, *, key: object = None, **body: Any) -> RestResponse:
        return self.call_warehouse("POST", f"/deleted-namespaces/{namespace_id}/undrop", body, key=key)

    def ids(self) -> dict[str, str]:
        """The newest ids of namespaces by their names."""
        with psycopg.connect(self.dsn) as connection:
            return dict(connection.execute("select name, namespace_id::text from icecore.namespaces order by position").fetchall())


def content(client: RestClient) -> dict[str, Any]:
    """Everything that a client sees, by path."""
    seen: dict[str, Any] = {}

    def walk(levels: list[str]) -> None:
        seen[".".join(levels)] = client.call("GET", namespace_path(levels)).json
        for name in client.table_names(*levels):
            seen[".".join([*levels, name])] = client.load_table(levels, name).json
        for name in client.view_names(*levels):
            seen[".".join([*levels, name])] = client.load_view(levels, name).json
        for child in client.call("GET", f"/namespaces?parent={'%1F'.join(levels)}").json["namespaces"]:
            walk(child)

    for top in client.call("GET", "/namespaces").json["namespaces"]:
        walk(top)
    return seen


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """Without jobs: each test runs those that it is about."""
    with served_catalog(database, tmp_path / "demo", jobs=False, local_warehouse_roots=(tmp_path,)) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[TreeClient]:
    with closing(TreeClient(server.url)) as client:
        client.dsn = server.dsn
        assert 200 == client.create_namespace("n").status
        client.build()
        yield client


def command_of(dsn: str, position: int) -> list[str]:
    """The topics of the command whose last event is at a position."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select e.topic from icecore.events e join icecore.commands c using (command_id) where c.last_position = %s"
            " order by e.notification_id",
            [position],
        ).fetchall()
    return [topic for (topic,) in found]


# Drop


def test_a_namespace_is_dropped_with_all_that_is_in_it(client: TreeClient) -> None:
    """By one command, the content before its namespace. The names and locations are free, and the past can be read."""
    position, before = client.head(), content(client)
    location = before["n"]["properties"]["location"]
    assert NOT_EMPTY == client.call("DELETE", "/namespaces/n").error
    dropped = client.drop_tree()
    assert (204, b"") == (dropped.status, dropped.body)
    topics = command_of(client.dsn, dropped.position)
    assert ["table.dropped.v1", "table.dropped.v1", "view.dropped.v1"] == sorted(topics[:3])
    assert ["namespace.dropped.v1"] * 3 == topics[3:]
    assert {} == content(client)
    assert ([], []) == (client.deleted(), client.deleted_namespaces())
    assert before == content(client.at(position))
    checked(client.dsn)
    assert 200 == client.call("POST", "/namespaces", {"namespace": ["n"], "properties": {"location": location}}).status


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize(("query", "explicit"), [("", None), ("&purge=true", True), ("&purge=false", False)])
def test_the_files_of_a_tree_are_deleted_as_those_of_its_tables(
    client: TreeClient, default: bool, query: str, explicit: bool | None
) -> None:
    """What the request says wins over the purge default; a table's gc.enabled keeps its files. The dry run says the same."""
    assert 200 == client.call_warehouse("POST", "/purge-default", {"purge-default": default}).status
    assert 200 == client.create_table(["n"], "kept", properties={"gc.enabled": "false"}).status
    purges = default if explicit is None else explicit
    planned = {each["name"]: each["purge"] for each in client.plan(query=query)["objects"] if each["type"] == "table"}
    assert {"kept": False, "t": purges} == planned
    assert 204 == client.drop_tree(query=query).status
    with psycopg.connect(client.dsn) as connection:
        found = connection.execute("select name, status from icecore.tables order by position desc limit 3").fetchall()
    assert {("kept", "dropped"), ("t", "purging" if purges else "dropped")} == {*found}


def test_a_dry_run_changes_nothing_and_names_everything(client: TreeClient) -> None:
    """With ids, paths, protection, what is soft-deleted already, and the expiry."""
    client.soft_delete()
    assert 204 == client.drop("t", "?purgeRequested=true").status
    ids = client.ids()
    protection = f"/namespace/{ids['m']}/protection"
    assert 200 == client.call_warehouse("POST", protection, {"protected": True}).status
    head = client.head()
    plan = client.plan()
    assert (False, 3, 1, 1) == (plan["final"], plan["namespaces"], plan["tables"], plan["views"])
    assert DAY * 6 < seconds_of(plan["expiration-date"]) - time.time() < DAY * 8
    found = {".".join([*each["namespace"], each["name"]]): each for each in plan["objects"]}
    actions = {**dict.fromkeys(("n", "n.m", "n.m.k", "n.v", "n.m.t"), "soft-delete"), "n.t": "keep"}
    assert actions == {path: each["action"] for path, each in found.items()}
    assert ["n.m"] == [path for path, each in found.items() if each["protected"]]
    assert ["n.t"] == [path for path, each in found.items() if each["soft-deleted"]]
    assert ["n.t"] == [path for path, each in found.items() if each["purge"]]
    assert ids["n"] == found["n"]["id"]
    forced = client.plan(query="&force=true")
    assert (True, None) == (forced["final"], forced["expiration-date"])
    assert {"n.t": "expire", "n": "drop"} == {
        path: each["action"] for each in forced["objects"] if (path := ".".join([*each["namespace"], each["name"]])) in ("n", "n.t")
    }
    assert head == client.head()
    for query, error in (
        ("?dryRun=true", (400, "BadRequestException")),
        ("?recursive=maybe", (400, "BadRequestException")),
        ("?purge=maybe", (400, "BadRequestException")),
        ("?recursive=true&purge=maybe", (400, "BadRequestException")),
        ("?recursive=true&dryRun=maybe", (400, "BadRequestException")),
    ):
        assert error == client.call("DELETE", f"/namespaces/n{query}").error, query
    assert GONE == client.drop_tree("x", query="&dryRun=true").error
    assert GONE == client.drop_tree("x").error
    assert (406, "UnsupportedOperationException") == client.at(head).call("DELETE", "/namespaces/n?recursive=true&dryRun=true").error
    assert head == client.head()


def test_protected_objects_refuse_the_drop_unless_it_is_forced(client: TreeClient) -> None:
    """Ten of them are named."""
    uuids = [client.create_table(["n", "m"], f"p{number}").json["metadata"]["table-uuid"] for number in range(12)]
    for each in uuids:
        assert 200 == client.call_warehouse("POST", f"/table/{each}/protection", {"protected": True}).status
    head = client.head()
    refused = client.drop_tree()
    assert PROTECTED == refused.error
    assert "n.m.p0 (" in refused.message
    assert "and 2 more" in refused.message
    assert head == client.head()
    assert 204 == client.drop_tree(query="&force=true").status
    assert {} == content(client)
    checked(client.dsn)


def test_a_soft_deleted_tree_is_gone_for_clients_and_stays_in_place(client: TreeClient) -> None:
    """Its names are free, its locations are not, and its parent cannot be dropped. Everything expires at one moment."""
    client.soft_delete()
    location = client.call("GET", namespace_path(["n", "m"])).json["properties"]["location"]
    position, before = client.head(), content(client)
    dropped = client.drop_tree("n", "m")
    assert 204 == dropped.status
    assert {"n", "n.t", "n.v"} == content(client).keys()
    assert GONE == client.create_table(["n", "m"], "x").error
    assert GONE == client.call("POST", "/namespaces/n%1Fm/properties", {"updates": {"k": "v"}}).error
    refused = client.call("DELETE", "/namespaces/n")
    assert NOT_EMPTY == refused.error
    assert (400, "BadRequestException") == client.create_table(["n"], "x", location=f"{location}").error
    (found,) = client.deleted_namespaces()
    assert (["n", "m"], "m", client.ids()["m"]) == (found["namespace"], found["name"], found["id"])
    assert found["id"] in [*client.call_warehouse("GET", "/deleted-namespaces").json["namespaces"][0].values()]
    with psycopg.connect(client.dsn) as connection:
        moments = connection.execute("select distinct expires_at_ms from icecore.soft_deleted").fetchall()
    assert 1 == len(moments)
    assert 200 == client.create_namespace("n", "m").status
    assert before == content(client.at(position))
    checked(client.dsn)


def test_what_was_soft_deleted_before_keeps_its_expiry_and_its_place(client: TreeClient) -> None:
    """A soft drop leaves it as it is; the undrop of the tree does not undrop it."""
    client.soft_delete(DAY)
    assert 204 == client.drop("t").status
    assert 204 == client.drop_tree("n", "m").status
    client.soft_delete(7 * DAY)
    (table,) = [each for each in client.deleted() if each["namespace"] == ["n"]]
    assert 204 == client.drop_tree().status
    (inner, root) = sorted(client.deleted_namespaces(), key=lambda each: -len(each["namespace"]))
    assert (["n", "m"], ["n"]) == (inner["namespace"], root["namespace"])
    assert seconds_of(root["expiration-date"]) - seconds_of(inner["expiration-date"]) > 5 * DAY
    assert table == next(each for each in client.deleted() if each["id"] == table["id"])
    refused = client.undrop_tree(inner["id"])
    assert SOFT_DELETED == refused.error
    assert f"n ({root['id']})" in refused.message
    refused = client.undrop(("table", table["id"]))
    assert SOFT_DELETED == refused.error
    assert f"n ({root['id']})" in refused.message
    assert 204 == client.undrop_tree(root["id"]).status
    assert {"n", "n.v"} == content(client).keys()
    assert 204 == client.undrop_tree(inner["id"]).status
    assert {"n", "n.v", "n.m", "n.m.t", "n.m.k"} == content(client).keys()
    assert [table["id"]] == [each["id"] for each in client.deleted()]
    checked(client.dsn)


def test_a_tree_does_not_expire_before_what_was_soft_deleted_in_it(client: TreeClient) -> None:
    """Without its namespace it could not be undropped. The dry run says the same moment."""
    client.soft_delete(7 * DAY)
    assert 204 == client.drop("t").status
    (table,) = client.deleted()
    client.soft_delete(DAY)
    assert table["expiration-date"] == client.plan()["expiration-date"]
    assert 204 == client.drop_tree().status
    assert {table["expiration-date"]} == {each["expiration-date"] for each in [*client.deleted(), *client.deleted_namespaces()]}
    (root,) = client.deleted_namespaces()
    assert 204 == client.undrop_tree(root["id"]).status
    assert 204 == client.undrop(("table", table["id"])).status
    checked(client.dsn)


def test_what_was_renamed_or_undropped_counts_once(client: TreeClient) -> None:
    """Neither its earlier names nor its earlier soft deletion are part of the tree: not in the dry run, nor in the expiry."""
    client.soft_delete(7 * DAY)
    assert 204 == client.drop("t").status
    (table,) = client.deleted()
    assert 204 == client.undrop(("table", table["id"])).status
    for source, destination in ((["n"], ["n", "m"]), (["n", "m"], ["n"])):
        renamed = {"source": {"namespace": source, "name": "v"}, "destination": {"namespace": destination, "name": "v"}}
        assert 204 == client.call("POST", "/views/rename", renamed).status
    client.soft_delete(DAY)
    expected = ["n", "n.m", "n.m.k", "n.m.t", "n.t", "n.v"]
    for query in ("", "&force=true"):
        assert expected == sorted(".".join([*each["namespace"], each["name"]]) for each in client.plan(query=query)["objects"])
    planned = seconds_of(client.plan()["expiration-date"])
    assert planned < seconds_of(table["expiration-date"]) - DAY
    assert 204 == client.drop_tree().status
    (root,) = client.deleted_namespaces()
    assert abs(seconds_of(root["expiration-date"]) - planned) < 3600
    checked(client.dsn)


@pytest.mark.parametrize("how", ["hard", "force"])
def test_a_final_drop_expires_what_was_soft_deleted_before(client: TreeClient, how: str) -> None:
    """In the same command, with the purge that its drop requested."""
    client.soft_delete()
    assert 204 == client.drop("t", "?purgeRequested=true").status
    assert 204 == client.drop_tree("n", "m").status
    if how == "hard":
        assert 200 == client.call_warehouse("POST", "/delete-profile", HARD).status
    dropped = client.drop_tree(query="&force=true" if how == "force" else "")
    assert 204 == dropped.status
    topics = command_of(client.dsn, dropped.position)
    assert ["namespace.dropped.v1"] == topics[-1:]
    assert {"table.expired.v1", "view.dropped.v1", "namespace.expired.v1", "namespace.dropped.v1"} == {*topics}
    assert ([], []) == (client.deleted(), client.deleted_namespaces())
    with psycopg.connect(client.dsn) as connection:
        found = connection.execute("select distinct on (table_id) status from icecore.tables order by table_id, version desc").fetchall()
    assert ["dropped", "purging"] == sorted(status for (status,) in found)
    checked(client.dsn)


def test_a_plain_drop_of_an_empty_namespace_is_final_and_leaves_nothing_behind(client: TreeClient) -> None:
    """Also in a soft-deleting warehouse: its parent, its location and its warehouse are free at once. A recursive drop can be undropped."""
    client.soft_delete()
    for levels in (["a"], ["a", "b"]):
        assert 200 == client.create_namespace(*levels).status
    location = client.call("GET", namespace_path(["a"])).json["properties"]["location"]
    assert [204, 204] == [client.call("DELETE", namespace_path(levels)).status for levels in (["a", "b"], ["a"])]
    assert [] == client.deleted_namespaces()
    properties = {"location": location, "owner": "sales"}
    assert 200 == client.call("POST", "/namespaces", {"namespace": ["a"], "properties": properties}).status
    assert 204 == client.drop_tree("a").status
    (found,) = client.deleted_namespaces()
    assert 204 == client.undrop_tree(found["id"]).status
    assert properties == client.call("GET", namespace_path(["a"])).json["properties"]
    assert 204 == client.call("DELETE", "/namespaces/a").status
    assert 204 == client.drop_tree(query="&force=true").status
    assert 204 == client.call_warehouse("DELETE").status


# Undrop


def test_an_undropped_tree_is_as_it_was(client: TreeClient) -> None:
    """Under its ids, with its content, for reads and commits. The key of a repeated request returns the same."""
    client.soft_delete()
    before, (drop_key, undrop_key) = content(client), (uuid4(), uuid4())
    dropped = client.drop_tree(query="&purge=true", key=drop_key)
    assert dropped.replayable == client.drop_tree(query="&purge=true", key=drop_key).replayable
    assert (422, "UnprocessableEntityException") == client.drop_tree(key=drop_key).error
    (found,) = client.deleted_namespaces()
    undropped = client.undrop_tree(found["id"], key=undrop_key)
    assert (204, b"") == (undropped.status, undropped.body)
    assert undropped.replayable == client.undrop_tree(found["id"], key=undrop_key).replayable
    assert before == content(client)
    assert ([], []) == (client.deleted(), client.deleted_namespaces())
    assert 200 == client.commit(["n", "m"], "t", set_properties(after="1")).status
    assert 200 == client.call("POST", "/namespaces/n/properties", {"updates": {"k": "v"}}).status
    assert 200 == client.create_table(["n", "m", "k"], "t").status
    assert 204 == client.drop_tree().status
    checked(client.dsn)
    assert 204 == client.undrop_tree(found["id"]).status
    checked(client.dsn)


def test_a_refused_undrop_of_a_tree_changes_nothing(client: TreeClient, tmp_path: Path) -> None:
    """A part of the tree, a taken name, something unknown, final or of another warehouse, missing files."""
    client.soft_delete()
    ids = client.ids()
    table_id = client.load_table(["n", "m"], "t").json["metadata"]["table-uuid"]
    assert 204 == client.drop_tree().status
    assert 200 == client.create_namespace("n").status
    head = client.head()
    for answer, error in (
        (client.undrop_tree(ids["n"]), TAKEN),
        (client.undrop_tree(ids["m"]), SOFT_DELETED),
        (client.undrop_tree(ids["k"]), SOFT_DELETED),
        (client.undrop(("table", table_id)), SOFT_DELETED),
        (client.undrop_tree(uuid4()), GONE),
        (client.undrop_tree(table_id), GONE),
        (client.undrop_tree("n"), GONE),
        (client.undrop_tree(ids["n"], forced=True), (400, "BadRequestException")),
    ):
        assert error == answer.error, answer.message
    for part in ("m", "k"):
        message = client.undrop_tree(ids[part]).message
        assert f"was dropped with namespace n ({ids['n']}): undrop that namespace" in message, "it names what can be undropped"
    body = {"warehouse-name": "sea", "storage-profile": {"type": "local", "directory": str(tmp_path / "sea")}}
    other = client.call_management("POST", "", body).json["id"]
    assert GONE == client.call_management("POST", f"/{other}/deleted-namespaces/{ids['n']}/undrop", {}).error
    assert [] == client.call_management("GET", f"/{other}/deleted-namespaces").json["namespaces"]
    assert 204 == client.call("DELETE", "/namespaces/n").status
    with psycopg.connect(client.dsn) as connection:
        ((file,),) = connection.execute("select metadata_location from icecore.tables order by position limit 1").fetchall()
    path = Path(file.removeprefix("file://"))
    content = path.read_bytes()
    path.unlink()
    refused = client.undrop_tree(ids["n"])
    assert (409, "FilesMissingException") == refused.error
    assert file in refused.message
    assert head < client.head()
    path.write_bytes(content)
    assert 204 == client.undrop_tree(ids["n"]).status
    assert 204 == client.drop_tree(query="&force=true").status
    assert TREE_EXPIRED == client.undrop_tree(ids["n"]).error
    checked(client.dsn)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_namespace_is_undropped_beside_a_table_or_view_of_its_name(client: TreeClient, kind: str) -> None:
    """Their names are apart from those of namespaces."""
    client.soft_delete()
    before = content(client)
    assert 204 == client.drop_tree("n", "m").status
    assert 200 == (client.create_table(["n"], "m") if kind == "table" else client.create_view(["n"], "m")).status
    (found,) = client.deleted_namespaces()
    undropped = client.undrop_tree(found["id"])
    assert 204 == undropped.status, undropped.body
    assert "m" in (client.table_names("n") if kind == "table" else client.view_names("n"))
    assert before["n.m.t"] == content(client)["n.m.t"]
    checked(client.dsn)


def test_the_undrop_of_a_live_namespace_changes_nothing(client: TreeClient) -> None:
    """As that of a live table: a client can repeat a request whose response was lost. A part of the tree is live with it."""
    client.soft_delete()
    ids = client.ids()
    assert 204 == client.undrop_tree(ids["n"]).status
    assert 204 == client.drop_tree().status
    assert 204 == client.call_warehouse("POST", f"/deleted-namespaces/{ids['n']}/undrop").status, "a body may be left out"
    before, head = content(client), client.head()
    key = uuid4()
    for each in (client.undrop_tree(ids["n"]), client.undrop_tree(ids["m"]), client.undrop_tree(ids["n"], force=True)):
        assert (204, b"") == (each.status, each.body)
    assert (head, before) == (client.head(), content(client))
    first = client.undrop_tree(ids["n"], key=key)
    assert 204 == client.drop_tree().status
    assert (204, first.replayable) == (first.status, client.undrop_tree(ids["n"], key=key).replayable)
    assert {} == content(client)
    done = icecore(client.dsn, "undrop", "demo", ids["n"])
    assert (0, 0) == (done.returncode, icecore(client.dsn, "undrop", "demo", ids["n"]).returncode)
    assert before == content(client)
    checked(client.dsn)


def test_soft_deleted_namespaces_are_listed_in_pages(client: TreeClient) -> None:
    client.soft_delete()
    for name in ("a", "b", "c"):
        assert 200 == client.create_namespace(name).status
        assert 204 == client.drop_tree(name).status
    names, token = [], ""
    while token is not None:
        page = client.call_warehouse("GET", f"/deleted-namespaces?pageSize=2&pageToken={token}").json
        names += [each["name"] for each in page["namespaces"]]
        assert len(page["namespaces"]) <= 2
        token = page["next-page-token"]
    assert ["a", "b", "c"] == names
    address = f"/{client.prefix}/deleted-namespaces"
    for query in ("?pageToken=x", "?pageSize=0", "?namespaceId=n"):
        assert (400, "BadRequestException") == client.call_management("GET", address + query).error
    assert (404, "NoSuchWarehouseException") == client.call_management("GET", f"/{uuid4()}/deleted-namespaces").error


def test_the_command_line_drops_as_the_server_does(client: TreeClient) -> None:
    """An empty namespace, a dry run, and a tree, which is listed and undropped."""
    client.soft_delete()

    def run(*arguments: str) -> tuple[int, str, str]:
        done = icecore(client.dsn, *arguments)
        return done.returncode, done.stdout, done.stderr

    before, ids = content(client), client.ids()
    code, printed, _ = run("namespace", "drop", "demo", "n", "--recursive", "--dry-run")
    assert (0, True) == (code, all(text in printed for text in ("n.m.k", "n.m.t", "n.v", ids["m"], "soft-delete", "kept")))
    code, printed, _ = run("namespace", "drop", "demo", "n", "--recursive", "--dry-run", "--purge", "--json")
    assert (0, client.plan(query="&purge=true")["objects"]) == (code, json.loads(printed)["objects"])
    code, _, said = run("namespace", "drop", "demo", "n")
    assert (1, True) == (code, "Namespace n is not empty" in said)
    code, _, said = run("namespace", "drop", "demo", "n", "--dry-run")
    assert (2, "icecore: --dry-run and --purge need --recursive\n") == (code, said)
    assert (0, "no namespace is soft-deleted\n", "") == run("namespace", "deleted", "demo")
    assert before == content(client)
    assert (0, "", "") == run("namespace", "drop", "demo", "n", "--recursive")
    assert {} == content(client)
    code, printed, _ = run("namespace", "deleted", "demo", "--json")
    assert (0, [(ids["n"], ["n"])]) == (code, [(each["id"], each["namespace"]) for each in json.loads(printed)])
    assert ids["n"] in run("namespace", "deleted", "demo")[1]
    assert (0, "", "") == run("undrop", "demo", ids["n"])
    assert before == content(client)
    assert 200 == client.call_warehouse("POST", f"/namespace/{ids['k']}/protection", {"protected": True}).status
    for recursive in ((), ("--recursive",)):
        code, _, said = run("namespace", "drop", "demo", "n.m.k", *recursive)
        assert (1, True) == (code, "protected" in said), said
    assert (0, "", "") == run("namespace", "drop", "demo", "n.m.k", "--force")
    assert {"n", "n.m", "n.m.t", "n.t", "n.v"} == content(client).keys()
    assert 200 == client.call_warehouse("POST", f"/namespace/{ids['m']}/protection", {"protected": True}).status
    assert (0, "", "") == run("namespace", "drop", "demo", "n.m", "--recursive", "--force")
    assert [] == client.deleted_namespaces()
    checked(client.dsn)


def test_the_views_of_a_tree_need_their_files_too(client: TreeClient) -> None:
    """As its tables do."""
    client.soft_delete()
    root_id, file = client.ids()["n"], client.load_view(["n"], "v").json["metadata-location"]
    Path(file.removeprefix("file://")).unlink()
    assert 204 == client.drop_tree().status
    refused = client.undrop_tree(root_id)
    assert 409 == refused.status, "undropped without the file of its view"
    assert (409, "FilesMissingException") == refused.error
    assert file in refused.message
    assert 204 == client.undrop_tree(root_id, force=True).status


def test_a_warehouse_with_only_soft_deleted_content_is_not_deleted(client: TreeClient) -> None:
    """Not even by force: it could not be undropped without it."""
    client.soft_delete()
    assert 204 == client.drop_tree().status
    for query in ("", "?force=true"):
        assert (409, "WarehouseNotEmptyException") == client.call_warehouse("DELETE", query).error
