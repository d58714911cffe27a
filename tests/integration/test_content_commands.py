"""Namespaces, tables and views of a warehouse at the command line."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.operator_commands import Operator, operator_on, read_json
from tests.fixtures.rest_client import RestClient, table_path

UNKNOWN = "7d8f5c1e-3b0a-4a52-9c61-2f4e8d9b7a10"


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    with served_catalog(database, tmp_path / "demo", jobs=False) as served:
        yield served


@pytest.fixture
def client(server: CatalogServer) -> Iterator[RestClient]:
    with closing(RestClient(server.url)) as client:
        yield client


@pytest.fixture
def operator(server: CatalogServer) -> Operator:
    return operator_on(server.dsn)


def test_namespaces_are_created_changed_and_listed_as_over_http(operator: Operator, client: RestClient) -> None:
    """With the properties and ids that the server returns."""
    assert (0, "no namespaces\n", "") == operator("namespace", "list", "demo")
    made = read_json(operator, "namespace", "create", "demo", "a", "--property", "owner=x=y")
    assert client.call("GET", "/namespaces/a").json == made
    code, printed, _ = operator("namespace", "create", "demo", "a.[b]")
    assert (0, True) == (code, printed.startswith("a.[b]  file:///")), printed
    assert (1, "", "icecore: Namespace already exists: a\n") == operator("namespace", "create", "demo", "a")
    assert (1, "", "icecore: Namespace does not exist: z\n") == operator("namespace", "create", "demo", "z.y")
    listed = client.call("GET", "/namespaces?returnUuids=true").json
    below = {"id": listed["namespace-uuids"][0], "namespace": ["a"], "protected": False}
    assert [below] == read_json(operator, "namespace", "list", "demo")
    (inner,) = read_json(operator, "namespace", "list", "demo", "--parent", "a")
    assert ["a", "[b]"] == inner["namespace"]
    assert "a.[b]" in operator("namespace", "list", "demo", "--parent", "a")[1]
    code, printed, _ = operator("namespace", "properties", "demo", "a", "--set", "owner=z")
    assert (0, True) == (code, "owner=z" in printed.splitlines()), printed
    code, _, said = operator("namespace", "properties", "demo", "a", "--unset", "owner", "--unset", "nothing")
    assert (0, "no such property: nothing\n") == (code, said)
    assert client.call("GET", "/namespaces/a").json == read_json(operator, "namespace", "properties", "demo", "a")
    assert 0 == operator("namespace", "protect", "demo:a")[0]
    expected = below | {"protected": True, "properties": {"location": made["properties"]["location"]}}
    assert expected == read_json(operator, "namespace", "get", "demo", "a") == read_json(operator, "namespace", "get", "demo", below["id"])
    code, printed, _ = operator("namespace", "get", "demo", "a")
    assert (0, f"name: a\nid: {below['id']}\nprotected: yes\nproperty: location={made['properties']['location']}\n") == (code, printed)


def test_a_past_state_is_listed_and_not_changed(operator: Operator, client: RestClient) -> None:
    """As the names were then."""
    past = f"demo@{client.create_namespace('a', k='1').position}"
    assert 0 == operator("namespace", "properties", "demo", "a", "--set", "k=2")[0]
    assert 0 == operator("namespace", "create", "demo", "b")[0]
    assert [["a"]] == [each["namespace"] for each in read_json(operator, "namespace", "list", past)]
    found = read_json(operator, "namespace", "get", past, "a")
    assert ("1", False) == (found["properties"]["k"], "protected" in found)
    code, _, said = operator("namespace", "get", past, found["id"])
    assert (2, "icecore: in a past state, give the namespace's name, not its id\n") == (code, said)
    for command in (
        ("namespace", "create", past, "c"),
        ("namespace", "properties", past, "a", "--set", "k=3"),
        ("namespace", "drop", past, "a"),
        ("table", "drop", past, "a.t"),
        ("view", "rename", past, "a.v", "a.w"),
    ):
        code, printed, said = operator(*command)
        assert (2, "", True) == (code, printed, "a past state cannot be changed" in said), said
    assert ["a", "b"] == sorted(name for (name,) in client.call("GET", "/namespaces").json["namespaces"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("list", "nowhere"), "Warehouse does not exist: nowhere"),
        (("list", "demo", "--parent", "nowhere"), "Namespace does not exist: nowhere"),
        (("get", "demo", "nowhere"), "Namespace does not exist: nowhere"),
        (("get", "demo", UNKNOWN), f"Namespace does not exist: {UNKNOWN}"),
        (("properties", "demo", "nowhere"), "Namespace does not exist: nowhere"),
    ],
)
def test_what_is_not_there_is_named(operator: Operator, arguments: tuple[str, ...], expected: str) -> None:
    assert (1, "", f"icecore: {expected}\n") == operator("namespace", *arguments)


def test_tables_are_listed_loaded_and_renamed_as_over_http(operator: Operator, client: RestClient) -> None:
    """With the ids and the metadata that the server returns."""
    assert 200 == client.create_namespace("n").status
    assert 200 == client.create_namespace("m").status
    assert (0, "no tables\n", "") == operator("table", "list", "demo", "n")
    assert 200 == client.create_table(["n"], "[t]", properties={"owner": "x" * 200}).status
    (table_id,) = client.call("GET", "/namespaces/n/tables?returnUuids=true").json["table-uuids"]
    listed = {"id": table_id, "type": "table", "namespace": ["n"], "name": "[t]", "protected": False}
    assert [listed] == read_json(operator, "table", "list", "demo", "n")
    code, printed, _ = operator("table", "list", "demo", "n")
    assert (0, ["n.[t]", table_id]) == (code, printed.splitlines()[1].split())
    loaded = client.load_table(["n"], "[t]").json
    whole = listed | {"metadata-location": loaded["metadata-location"], "metadata": loaded["metadata"]}
    assert whole == read_json(operator, "table", "get", "demo", "n.[t]") == read_json(operator, "table", "get", "demo", table_id)
    code, printed, _ = operator("table", "get", "demo", "n.[t]")
    lines = printed.splitlines()
    for line in (
        "name: n.[t]",
        f"id: {table_id}",
        "protected: no",
        f"location: {loaded['metadata']['location']}",
        f"metadata-location: {loaded['metadata-location']}",
        f"format-version: {loaded['metadata']['format-version']}",
        "snapshots: 0",
        f"property: owner={'x' * 200}",
    ):
        assert line in lines, printed
    assert any(line.startswith("column: ") for line in lines), printed
    assert (0, "", "") == operator("table", "rename", "demo", "n.[t]", "m.u")
    assert ([], ["u"]) == (client.table_names("n"), client.table_names("m"))
    assert 200 == client.create_table(["n"], "u").status
    code, _, said = operator("table", "rename", "demo", "n.u", "m.u")
    assert (1, True) == (code, "Cannot rename n.u to m.u. Table already exists" in said), said
    code, _, said = operator("view", "get", "demo", "m.u")
    assert (1, "icecore: View does not exist: m.u\n") == (code, said)


def test_tables_are_dropped_as_over_http(operator: Operator, client: RestClient) -> None:
    """A protected one by force. The purge, and whether it is undropped, are those that a request would have."""
    assert 200 == client.create_namespace("n").status
    for name in ("kept", "purged", "hard", "soft"):
        assert 200 == client.create_table(["n"], name).status
    assert 0 == operator("warehouse", "delete-profile", "demo", "--soft", "7d")[0]
    assert 0 == operator("table", "protect", "demo:n.hard")[0]
    code, _, said = operator("table", "drop", "demo", "n.hard")
    assert (1, True) == (code, "protected" in said), said
    assert (0, "", "") == operator("table", "drop", "demo", "n.hard", "--force", "--no-purge")
    assert (0, "", "") == operator("table", "drop", "demo", "n.soft")
    assert ["soft"] == [each["name"] for each in read_json(operator, "table", "deleted", "demo")]
    assert 0 == operator("warehouse", "delete-profile", "demo", "--hard")[0]
    assert 0 == operator("warehouse", "purge-default", "demo")[0]
    assert (0, "", "") == operator("table", "drop", "demo", "n.kept", "--no-purge")
    assert (0, "", "") == operator("table", "drop", "demo", "n.purged")
    purges = read_json(operator, "task", "list", "demo", "--queue", "tabular_purge")
    assert [["n", "purged"]] == [each.get("entity-name", each.get("name")) for each in purges]
    assert [] == client.table_names("n")
    assert (1, "", "icecore: Table does not exist: n.kept\n") == operator("table", "drop", "demo", "n.kept")


def test_a_table_is_unregistered_and_registered(operator: Operator, client: RestClient) -> None:
    """By the location that the first command prints."""
    assert 200 == client.create_namespace("n").status
    assert 200 == client.create_table(["n"], "t").status
    loaded = client.load_table(["n"], "t").json
    location = loaded["metadata-location"]
    assert 0 == operator("table", "protect", "demo:n.t")[0]
    assert 1 == operator("table", "unregister", "demo", "n.t")[0]
    assert (0, f"{location}\n", "") == operator("table", "unregister", "demo", "n.t", "--force")
    assert [] == client.table_names("n")
    assert (0, "", "") == operator("table", "register", "demo", "n.u", location)
    assert loaded["metadata"]["table-uuid"] == client.load_table(["n"], "u").json["metadata"]["table-uuid"]
    code, _, said = operator("table", "register", "demo", "n.u", location)
    assert (1, True) == (code, "already exists: n.u" in said), said
    assert (0, "", "") == operator("table", "register", "demo", "n.u", location, "--overwrite")
    assert {"metadata-location": location} == read_json(operator, "table", "unregister", "demo", "n.u")


def test_views_are_listed_loaded_renamed_dropped_and_registered(operator: Operator, client: RestClient) -> None:
    """As over HTTP."""
    assert 200 == client.create_namespace("n").status
    assert (0, "no views\n", "") == operator("view", "list", "demo", "n")
    assert 200 == client.create_view(["n"], "v", "select 1 as [one]").status
    (view_id,) = client.call("GET", "/namespaces/n/views?returnUuids=true").json["table-uuids"]
    listed = {"id": view_id, "type": "view", "namespace": ["n"], "name": "v", "protected": False}
    assert [listed] == read_json(operator, "view", "list", "demo", "n")
    loaded = client.load_view(["n"], "v").json
    whole = listed | {"metadata-location": loaded["metadata-location"], "metadata": loaded["metadata"]}
    assert whole == read_json(operator, "view", "get", "demo", "n.v") == read_json(operator, "view", "get", "demo", view_id)
    code, printed, _ = operator("view", "get", "demo", "n.v")
    assert (0, True) == (code, "spark: select 1 as [one]" in printed.splitlines()), printed
    assert (0, "", "") == operator("view", "rename", "demo", "n.v", "n.w")
    assert 0 == operator("view", "protect", "demo:n.w")[0]
    assert 1 == operator("view", "drop", "demo", "n.w")[0]
    assert ["w"] == client.view_names("n")
    assert (0, "", "") == operator("view", "drop", "demo", "n.w", "--force")
    assert [] == client.view_names("n")
    assert (0, "", "") == operator("view", "register", "demo", "n.x", loaded["metadata-location"])
    assert loaded["metadata"]["view-uuid"] == client.load_view(["n"], "x").json["metadata"]["view-uuid"]


def test_a_project_and_an_inactive_warehouse_are_respected(operator: Operator, client: RestClient, tmp_path: Path) -> None:
    """--project and PROJECT/WAREHOUSE name the same. What is inactive can be read, and is not changed."""
    profile = json.dumps({"type": "local", "directory": str(tmp_path / "team")})
    assert 0 == operator("project", "create", "Team")[0]
    assert 0 == operator("warehouse", "create", "Team/lake", "--profile", profile)[0]
    assert 0 == operator("namespace", "create", "lake", "a", "--project", "Team")[0]
    assert [["a"]] == [each["namespace"] for each in read_json(operator, "namespace", "list", "Team/lake")]
    assert (0, "no tables\n", "") == operator("table", "list", "lake", "a", "--project", "Team")
    for command in (
        ("namespace", "list", "lake"),
        ("namespace", "create", "lake", "b"),
        ("table", "list", "lake", "a"),
        ("view", "get", "lake", "a.v"),
        ("table", "drop", "lake", "a.t"),
    ):
        elsewhere = "icecore: Warehouse does not exist in the default project: lake; other projects have Team/lake\n"
        assert (1, "", elsewhere) == operator(*command)
    assert 200 == client.create_namespace("n").status
    assert 200 == client.create_table(["n"], "t").status
    assert 0 == operator("warehouse", "deactivate", "demo")[0]
    assert ["t"] == [each["name"] for each in read_json(operator, "table", "list", "demo", "n")]
    for change in (("namespace", "create", "demo", "b"), ("table", "drop", "demo", "n.t"), ("table", "rename", "demo", "n.t", "n.u")):
        assert (1, "", "icecore: Warehouse is inactive: demo\n") == operator(*change)
    assert 0 == operator("warehouse", "activate", "demo")[0]
    assert 200 == client.call("GET", table_path(["n"], "t")).status
