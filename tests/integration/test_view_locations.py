"""The locations that a view writes to are claimed like a table's: purges of others do not reach its files."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.rest_client import SCHEMA, RestClient, RestResponse, set_properties, view_path, view_version
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.fixtures.waiting import wait_for
from tests.integration.test_metadata_trimming import KEEP_ONE, committed, job_held, local


def create_view(client: RestClient, name: str, location: str | None = None, **properties: str) -> RestResponse:
    body = {"name": name, "schema": SCHEMA, "view-version": view_version("select 1"), "properties": properties}
    return client.call("POST", "/namespaces/a/views", body if location is None else {**body, "location": location})


def register_view(client: RestClient, name: str, location: str) -> RestResponse:
    return client.call("POST", "/namespaces/a/register-view", {"name": name, "metadata-location": location})


def commit_view(client: RestClient, name: str, *updates: dict[str, Any]) -> RestResponse:
    return client.call("POST", view_path(["a"], name), {"requirements": [], "updates": updates})


def view_files(warehouse: FreshWarehouse) -> set[Path]:
    return set(warehouse.directory.rglob("*.gz.metadata.json"))


def metadata_path(place: str) -> dict[str, str]:
    return {"write.metadata.path": place}


@pytest.mark.parametrize("begun_by", ["create", "commit", "register"])
def test_a_view_does_not_write_to_a_tables_location(client: RestClient, warehouse: FreshWarehouse, begun_by: str) -> None:
    """For every operation, and no file is written there."""
    table = f"{warehouse.base}/t"
    path = metadata_path(f"{table}/metadata")
    if begun_by == "register":
        assert 200 == create_view(client, "w", **path).status
        location = client.call("GET", view_path(["a"], "w")).json["metadata-location"]
        assert 204 == client.call("DELETE", view_path(["a"], "w")).status
    client.create_table(["a"], "t", location=table)
    if begun_by == "commit":
        assert 200 == create_view(client, "v").status
    files = view_files(warehouse)
    match begun_by:
        case "create":
            refused = create_view(client, "v", **path)
        case "commit":
            refused = commit_view(client, "v", set_properties(path))
        case _:
            refused = register_view(client, "v", location)
    assert refused.location_taken
    assert files == view_files(warehouse)


def test_a_view_s_location_is_claimed(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Its location and its metadata path, while it exists, also former ones."""
    places = [f"{warehouse.base}/{name}" for name in ("here", "first", "second")]
    assert 200 == create_view(client, "v", places[0], **metadata_path(places[1])).status
    assert 200 == commit_view(client, "v", set_properties(metadata_path(places[2]))).status
    assert 200 == commit_view(client, "v", set_properties(comment="its own places are not in its way")).status
    for place in places:
        assert client.create_table(["a"], "t", location=place).location_taken
        assert create_view(client, "w", **metadata_path(f"{place}/below")).location_taken
    assert 204 == client.call("DELETE", view_path(["a"], "v")).status
    for number, place in enumerate(places):
        assert 200 == client.create_table(["a"], f"t{number}", location=place).status


def test_a_view_at_a_taken_location_leaves_no_file(client: RestClient, warehouse: FreshWarehouse) -> None:
    client.create_table(["a"], "t", location=f"{warehouse.base}/t")
    assert create_view(client, "v", f"{warehouse.base}/t/below").location_taken
    assert set() == view_files(warehouse)


def test_the_file_that_a_view_is_registered_from_is_held(client: RestClient, warehouse: FreshWarehouse) -> None:
    """If it is outside the view's location."""
    assert 200 == create_view(client, "v", f"{warehouse.base}/v").status
    source = local(client.call("GET", view_path(["a"], "v")).json["metadata-location"])
    imports = warehouse.directory / "imports"
    imports.mkdir()
    source.rename(imports / source.name)
    assert 204 == client.call("DELETE", view_path(["a"], "v")).status
    assert 200 == register_view(client, "v", f"file://{imports}/{source.name}").status
    assert client.create_table(["a"], "t", location=f"{warehouse.base}/imports").location_taken


def test_a_view_is_not_registered_from_a_file_in_anothers_location(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The file is not even read, and is missing here. The same for a file that is about to be deleted."""
    client.create_table(["a"], "t", location=f"{warehouse.base}/t")
    assert register_view(client, "v", f"{warehouse.base}/t/metadata/00000-none.metadata.json").location_taken


def test_a_view_is_not_registered_from_a_file_that_is_to_be_deleted(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog
) -> None:
    old = client.create_table(["a"], "t", properties=KEEP_ONE).json["metadata-location"]
    with job_held(shared_catalog):
        for number in range(2):
            committed(client.commit(["a"], "t", set_properties(k=str(number))))
        assert 204 == client.drop_table(["a"], "t").status
        refused = register_view(client, "v", old)
    assert (404, "NotFoundException") == refused.error
    assert "is about to be deleted" in refused.message


def test_a_purge_passes_a_view_s_file_by(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A table may name it as its statistics file, but it is in none of the table's locations."""
    client.create_table(["a"], "t", location=f"{warehouse.base}/t")
    assert 200 == create_view(client, "v", **metadata_path(f"{warehouse.base}/v")).status
    file = client.call("GET", view_path(["a"], "v")).json["metadata-location"]
    statistics = {"snapshot-id": 1, "statistics-path": file, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    committed(client.commit(["a"], "t", {"action": "set-statistics", "snapshot-id": 1, "statistics": statistics}))
    assert 204 == client.drop_table(["a"], "t", "?purgeRequested=true").status
    wait_for(lambda: client.create_table(["a"], "u", location=f"{warehouse.base}/t").status == 200, 30)
    assert local(file).is_file()
