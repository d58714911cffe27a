"""Races that Lakekeeper loses, one test for each: lost updates of properties, overlapping locations, and a drop around a creation.

test_protection.py has the view whose protection was lost at its commit.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.fixtures.catalog import CatalogServer
from tests.fixtures.rest_client import SCHEMA, RestClient

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
