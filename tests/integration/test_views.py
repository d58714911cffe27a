"""Views over HTTP: create, load, replace, rename, drop, and the error messages of the compatibility kit."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.rest_client import RestClient, RestResponse, set_properties, view_path, view_version
from tests.fixtures.shared_server import FreshWarehouse


def document(location: str) -> dict[str, Any]:
    data = Path(location.removeprefix("file://")).read_bytes()
    loaded: dict[str, Any] = json.loads(gzip.decompress(data) if location.endswith(".gz.metadata.json") else data)
    return loaded


def replace(client: RestClient, name: str, *updates: Any, requirements: Any = ()) -> RestResponse:
    return client.call("POST", view_path(["a"], name), {"requirements": list(requirements), "updates": list(updates)})


def new_version(sql: str) -> list[dict[str, Any]]:
    return [
        {"action": "add-view-version", "view-version": view_version(sql, timestamp_ms=1_700_000_000_001)},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def test_a_created_view_is_loaded_as_it_was_answered(client: RestClient) -> None:
    """Create, load and the file agree."""
    created = client.create_view(["a"], "v", "select 1", properties={"k": "v"})
    assert 200 == created.status
    loaded = client.load_view(["a"], "v")
    assert created.json == loaded.json
    assert created.json["metadata"] == document(created.json["metadata-location"])
    assert ({"k": "v"}, 1) == (loaded.json["metadata"]["properties"], loaded.json["metadata"]["current-version-id"])
    assert ["v"] == client.view_names("a")
    assert [] == client.table_names("a")
    assert 204 == client.call("HEAD", view_path(["a"], "v")).status


def test_refusals_of_create_say_what_the_kit_reads(client: RestClient) -> None:
    """Over a view, over a table, in no namespace."""
    client.create_view(["a"], "v")
    client.create_table(["a"], "t")
    refused = client.create_view(["a"], "V")
    assert ((409, "AlreadyExistsException"), "View already exists: a.V") == (refused.error, refused.message)
    refused = client.create_view(["a"], "t")
    assert ((409, "AlreadyExistsException"), "Table with same name already exists: a.t") == (refused.error, refused.message)
    refused = client.create_view(["b"], "v")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    assert (404, "NoSuchNamespaceException") == client.call("GET", "/namespaces/b/views").error


@pytest.mark.parametrize("path", ["/namespaces/a/views/u", "/namespaces/b/views/v", "/namespaces/a/views/t"])
def test_what_is_no_view_is_not_found(client: RestClient, path: str) -> None:
    """A missing name, a missing namespace and a table, for every operation."""
    client.create_view(["a"], "v")
    client.create_table(["a"], "t")
    for method, body in (("GET", None), ("POST", {"requirements": [], "updates": [set_properties(k="v")]}), ("DELETE", None)):
        refused = client.call(method, path, body)
        assert (404, "NoSuchViewException") == refused.error
        assert refused.message.startswith("View does not exist: ")
    assert 404 == client.call("HEAD", path).status


def test_a_replaced_view_has_one_more_version(client: RestClient) -> None:
    """The new version is current, the old one is kept, and the next file has the next number."""
    created = client.create_view(["a"], "v", "select 1").json
    requirement = {"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}
    response = replace(client, "v", *new_version("select 2"), requirements=[requirement])
    assert 200 == response.status
    metadata = response.json["metadata"]
    assert ["select 1", "select 2"] == [version["representations"][0]["sql"] for version in metadata["versions"]]
    assert 2 == metadata["current-version-id"] == metadata["version-log"][-1]["version-id"]
    assert "00001" == Path(response.json["metadata-location"]).name.split("-")[0]
    assert metadata == document(response.json["metadata-location"])
    assert response.json == client.load_view(["a"], "v").json


@pytest.mark.parametrize("place", ["a", "z"])
def test_a_moved_view_claims_its_new_location(client: RestClient, warehouse: FreshWarehouse, place: str) -> None:
    """For any order of the locations."""
    client.create_view(["a"], "v", location=f"{warehouse.base}/m")
    assert 200 == replace(client, "v", {"action": "set-location", "location": f"{warehouse.base}/{place}"}).status
    refused = client.create_table(["a"], "t", location=f"{warehouse.base}/{place}/below")
    assert refused.location_taken


def test_a_replacement_that_changes_nothing_writes_nothing(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The same response and position, without a file."""
    created = client.create_view(["a"], "v", "select 1")
    location = created.json["metadata"]["location"]
    response = replace(client, "v", {"action": "set-location", "location": location})
    assert (created.json, created.position) == (response.json, response.position)
    assert 1 == len(list(warehouse.directory.rglob("*.metadata.json")))


def test_a_wrong_uuid_refuses_the_replacement(client: RestClient) -> None:
    """409 without a change."""
    created = client.create_view(["a"], "v").json
    refused = replace(client, "v", *new_version("select 2"), requirements=[{"type": "assert-view-uuid", "uuid": "no"}])
    assert (409, "CommitFailedException") == refused.error
    assert "view UUID does not match" in refused.message
    assert created == client.load_view(["a"], "v").json


def test_two_queries_of_one_dialect_are_refused(client: RestClient) -> None:
    """400 with the kit's message."""
    version = view_version("select 1")
    version["representations"] = [{"type": "sql", "sql": f"select {n}", "dialect": "trino"} for n in (1, 2)]
    refused = client.create_view(["a"], "v", **{"view-version": version})
    assert 400 == refused.status
    assert "Invalid view version: Cannot add multiple queries for dialect trino" == refused.message


def test_a_rename_moves_the_name_alone(client: RestClient) -> None:
    """Within a namespace, to another, and to another spelling."""
    client.create_namespace("b")
    before = client.create_view(["a"], "v").json
    for source, destination in (((["a"], "v"), (["a"], "w")), ((["a"], "w"), (["b"], "w")), ((["b"], "w"), (["b"], "W"))):
        response = client.rename_view(source, destination)
        assert (204, b"") == (response.status, response.body)
        assert before == client.load_view(*destination).json
    assert ([], ["W"]) == (client.view_names("a"), client.view_names("b"))


def test_refusals_of_rename_say_what_the_kit_reads(client: RestClient) -> None:
    """Onto a view, onto a table, from nothing, into no namespace."""
    client.create_view(["a"], "v")
    client.create_view(["a"], "w")
    client.create_table(["a"], "t")
    for target, message in (
        ("w", "Cannot rename a.v to a.w. View already exists"),
        ("t", "Cannot rename a.v to a.t. Table already exists"),
    ):
        refused = client.rename_view((["a"], "v"), (["a"], target))
        assert ((409, "AlreadyExistsException"), message) == (refused.error, refused.message)
    refused = client.rename_view((["a"], "x"), (["a"], "y"))
    assert ((404, "NoSuchViewException"), "View does not exist: a.x") == (refused.error, refused.message)
    refused = client.rename_view((["a"], "v"), (["b"], "v"))
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    refused = client.rename_table((["a"], "v"), (["a"], "y"))
    assert (404, "NoSuchTableException") == refused.error


def test_a_dropped_view_frees_its_name_and_location(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Both are free at once. Its files stay."""
    created = client.create_view(["a"], "v", location=f"{warehouse.base}/here").json
    assert client.create_table(["a"], "t", location=f"{warehouse.base}/here").location_taken
    assert 204 == client.call("DELETE", view_path(["a"], "v")).status
    assert Path(created["metadata-location"].removeprefix("file://")).is_file()
    assert 200 == client.create_table(["a"], "v", location=f"{warehouse.base}/here").status


def test_replacements_at_once_all_arrive(client: RestClient) -> None:
    """Their requirements pass on every state: all succeed in some order, and every version is kept."""
    created = client.create_view(["a"], "v", "select 0", properties={"version.history.num-entries": "100"}).json
    requirement = {"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}
    bodies = [{"requirements": [requirement], "updates": new_version(f"select {n}")} for n in range(1, 13)]
    responses = client.together([("POST", view_path(["a"], "v"), body, None) for body in bodies])
    assert {200} == {response.status for response in responses}, {response.body for response in responses}
    kept = {version["representations"][0]["sql"] for version in client.load_view(["a"], "v").json["metadata"]["versions"]}
    assert {f"select {n}" for n in range(13)} == kept
    assert 12 == len({response.position for response in responses})
