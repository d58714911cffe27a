"""Defects that were found in Lakekeeper or reported by its users, one test for each.

Elsewhere: the protection of a view that was lost at its commit (test_protection.py); replays that return another response than the first,
and keys that are used for another request (test_idempotency.py); undrop against expiry (test_soft_deletion.py); search by id
(test_search.py).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.catalog import CatalogServer
from tests.fixtures.rest_client import SCHEMA, RestClient, identifier, set_properties
from tests.fixtures.snapshots import snapshot_updates
from tests.integration.test_projects import Tenants

PARALLEL = 100


@pytest.fixture
def client(catalog_server: CatalogServer) -> Iterator[RestClient]:
    with closing(RestClient(catalog_server.url)) as opened:
        assert 200 == opened.create_namespace("n").status
        yield opened


def test_no_update_of_a_property_is_lost(client: RestClient) -> None:
    """Updates of different keys of one namespace at the same time."""
    calls = [("POST", "/namespaces/n/properties", {"updates": {f"k{number}": "v"}}, None) for number in range(PARALLEL // 2)]
    assert {200} == {each.status for each in client.together(calls)}
    properties = client.call("GET", "/namespaces/n").json["properties"]
    assert {f"k{number}" for number in range(PARALLEL // 2)} == {key for key in properties if key.startswith("k")}


def test_of_creations_at_nested_locations_one_wins(client: RestClient, catalog_server: CatalogServer) -> None:
    """Each location contains the next, so every pair overlaps."""
    calls = []
    location = f"file://{catalog_server.warehouse_directory}/nested"
    for number in range(PARALLEL):
        calls.append(("POST", "/namespaces/n/tables", {"name": f"t{number}", "schema": SCHEMA, "location": location}, None))
        location += "/n"
    responses = client.together(calls)
    created = [number for number, each in enumerate(responses) if each.status == 200]
    assert 1 == len(created)
    assert all(each.location_taken for number, each in enumerate(responses) if number not in created)
    assert [f"t{created[0]}"] == client.table_names("n")


def test_a_namespace_is_dropped_or_filled_but_not_both(client: RestClient) -> None:
    """A drop and creations in it at the same time: afterwards it is gone and empty, or it is there with what was created."""
    for number in range(10):
        name = f"d{number}"
        assert 200 == client.create_namespace(name).status
        creations = [("POST", f"/namespaces/{name}/tables", {"name": f"t{each}", "schema": SCHEMA}, None) for each in range(3)]
        dropped, *created = client.together([("DELETE", f"/namespaces/{name}", None, None), *creations])
        if dropped.status == 204:
            assert {(404, "NoSuchNamespaceException")} == {each.error for each in created}
            assert 404 == client.call("HEAD", f"/namespaces/{name}").status
        else:
            assert (409, "NamespaceNotEmptyException") == dropped.error
            assert {200} == {each.status for each in created}
            assert ["t0", "t1", "t2"] == client.table_names(name)


def test_the_removal_of_the_last_ref_is_kept(client: RestClient) -> None:
    """It was skipped where nothing was left to write."""
    location = client.create_table(["n"], "t").json["metadata"]["location"]
    assert 200 == client.commit(["n"], "t", *snapshot_updates(f"{location}/metadata/snap-1.avro")).status
    assert {"main"} == set(client.load_table(["n"], "t").json["metadata"]["refs"])
    assert 200 == client.commit(["n"], "t", {"action": "remove-snapshot-ref", "ref-name": "main"}).status
    metadata = client.load_table(["n"], "t").json["metadata"]
    assert {} == metadata.get("refs", {})
    assert metadata.get("current-snapshot-id", -1) == -1


def test_the_removal_of_the_last_property_is_kept(client: RestClient) -> None:
    """Of a table, a view and a namespace."""
    client.create_table(["n"], "t")
    client.create_view(["n"], "v")
    for path in ("/namespaces/n/tables/t", "/namespaces/n/views/v"):
        for update in (set_properties(k="1"), {"action": "remove-properties", "removals": ["k"]}):
            assert 200 == client.call("POST", path, {"requirements": [], "updates": [update]}).status
        assert "k" not in client.call("GET", path).json["metadata"].get("properties", {})
    assert 200 == client.call("POST", "/namespaces/n/properties", {"updates": {"k": "1"}}).status
    assert ["k"] == client.call("POST", "/namespaces/n/properties", {"removals": ["k"]}).json["removed"]
    assert "k" not in client.call("GET", "/namespaces/n").json["properties"]


def test_a_load_during_commits_returns_one_state(client: RestClient) -> None:
    """Each commit changes two properties together; a load never sees only one of them changed, nor another version's file."""
    client.create_table(["n"], "t", properties={"a": "0", "b": "0"})
    commits = [
        ("POST", "/namespaces/n/tables/t", {"requirements": [], "updates": [set_properties(a=str(number), b=str(number))]}, None)
        for number in range(20)
    ]
    loads: list[tuple[str, str, Any, object]] = [("GET", "/namespaces/n/tables/t", None, None)] * 30
    answers = client.together([*commits, *loads])
    assert {200} == {each.status for each in answers}
    for answer in answers:
        properties, file = answer.json["metadata"]["properties"], answer.json["metadata-location"]
        assert properties["a"] == properties["b"]
        assert file not in {each["metadata-file"] for each in answer.json["metadata"]["metadata-log"]}
    by_file = {answer.json["metadata-location"]: answer.json["metadata"]["properties"] for answer in answers}
    assert all(by_file[answer.json["metadata-location"]] == answer.json["metadata"]["properties"] for answer in answers)


def test_writers_of_one_table_get_conflicts_and_no_failures(client: RestClient) -> None:
    """All add a column with the same id: one succeeds, and every other writer is told to try again."""
    last = client.create_table(["n"], "t").json["metadata"]["last-column-id"]
    requirement = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": last}
    calls: list[tuple[str, str, Any, object]] = []
    for number in range(32):
        column = {"id": last + 1, "name": f"c{number}", "type": "long", "required": False}
        schema = {**SCHEMA, "fields": [*SCHEMA["fields"], column]}
        updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        calls.append(("POST", "/namespaces/n/tables/t", {"requirements": [requirement], "updates": updates}, None))
    answers = client.together(calls)
    (winner,) = [number for number, each in enumerate(answers) if each.status == 200]
    assert {(409, "CommitFailedException")} == {each.error for each in answers if each.status != 200}
    metadata = client.load_table(["n"], "t").json["metadata"]
    (schema,) = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    assert ["id", f"c{winner}"] == [field["name"] for field in schema["fields"]]


def test_of_a_drop_and_a_rename_each_has_its_whole_effect_or_none(client: RestClient) -> None:
    """The table is gone, or it has its new name; it never has both names, nor neither without a drop."""
    for number in range(10):
        assert 200 == client.create_table(["n"], f"old{number}").status
        rename = {"source": identifier(["n"], f"old{number}"), "destination": identifier(["n"], f"new{number}")}
        dropped, renamed = client.together(
            [("DELETE", f"/namespaces/n/tables/old{number}", None, None), ("POST", "/tables/rename", rename, None)]
        )
        left = [name for name in client.table_names("n") if name.endswith(str(number))]
        if dropped.status == 204:
            assert ([], (404, "NoSuchTableException")) == (left, renamed.error)
        else:
            assert ([f"new{number}"], 204, (404, "NoSuchTableException")) == (left, renamed.status, dropped.error)
            assert 204 == client.drop_table(["n"], f"new{number}").status


def test_a_name_goes_to_an_undrop_or_to_a_creation(client: RestClient, catalog_server: CatalogServer) -> None:
    """Both at the same time: one has it, the other gets 409."""
    prefix = client.call_root("GET", "/config?warehouse=demo").json["overrides"]["prefix"]
    address = f"/management/v1/warehouse/{prefix}"
    with closing(Tenants(catalog_server.url)) as operator, ThreadPoolExecutor(2) as threads:
        profile = {"delete-profile": {"type": "soft", "expiration-seconds": 1000}}
        assert 200 == operator.send("POST", f"{address}/delete-profile", profile).status
        for number in range(10):
            name = f"t{number}"
            table_id = client.create_table(["n"], name).json["metadata"]["table-uuid"]
            assert 204 == client.drop_table(["n"], name).status
            targets = {"targets": [{"type": "table", "id": table_id}]}
            undropped = threads.submit(operator.send, "POST", f"{address}/deleted-tabulars/undrop", targets)
            created = threads.submit(client.create_table, ["n"], name)
            statuses = (undropped.result().status, created.result().status)
            assert statuses in ((204, 409), (409, 200))
            found = client.load_table(["n"], name).json["metadata"]["table-uuid"]
            assert (found == table_id) == (statuses == (204, 409))


def test_a_drop_that_asks_for_no_purge_keeps_the_files(client: RestClient) -> None:
    """Lakekeeper's default deletes them."""
    for name in ("dropped", "unregistered"):
        location = client.create_table(["n"], name).json["metadata"]["location"].removeprefix("file://")
        if name == "dropped":
            assert 204 == client.drop_table(["n"], name).status
        else:
            assert client.call("POST", f"/namespaces/n/tables/{name}/unregister", {}).status == 200
        assert [*Path(location).rglob("*.metadata.json")]
