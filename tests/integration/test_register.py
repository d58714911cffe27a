"""Registration over HTTP: existing metadata files become tables and views, or replace a table."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.rest_client import RestClient, RestResponse, set_properties, table_path, view_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog


def register(client: RestClient, name: str, location: str, namespace: str = "a", **fields: Any) -> RestResponse:
    return client.call("POST", f"/namespaces/{namespace}/register", {"name": name, "metadata-location": location, **fields})


def register_view(client: RestClient, name: str, location: str, namespace: str = "a") -> RestResponse:
    return client.call("POST", f"/namespaces/{namespace}/register-view", {"name": name, "metadata-location": location})


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def moved(metadata_location: str, warehouse: FreshWarehouse, folder: str, **fields: Any) -> str:
    """A copy of a metadata file for another location in the warehouse, with some fields changed."""
    document = json.loads(local(metadata_location).read_bytes())
    document |= {"location": f"{warehouse.base}/{folder}", "metadata-log": [], **fields}
    target = warehouse.directory / folder / "metadata" / "v7.metadata.json"
    target.parent.mkdir(parents=True)
    target.write_text(json.dumps(document))
    return f"file://{target}"


def test_a_table_that_was_dropped_comes_back_by_its_file(client: RestClient) -> None:
    """Metadata, UUID and location are the file's. The next file has the next number."""
    client.create_table(["a"], "t")
    before = client.commit(["a"], "t", set_properties(k="v")).json
    assert 204 == client.drop_table(["a"], "t").status
    response = register(client, "back", before["metadata-location"])
    assert 200 == response.status
    assert (before["metadata"], before["metadata-location"]) == (response.json["metadata"], response.json["metadata-location"])
    loaded = client.load_table(["a"], "back")
    assert (response.body, response.headers["etag"]) == (loaded.body, loaded.headers["etag"])
    after = client.commit(["a"], "back", set_properties(k="w")).json
    assert "00002" == local(after["metadata-location"]).name.split("-")[0]


def test_a_packed_file_is_registered_too(client: RestClient, warehouse: FreshWarehouse) -> None:
    """gzip is detected by the file's first bytes."""
    location = moved(client.create_table(["a"], "t").json["metadata-location"], warehouse, "packed")
    target = local(location).with_name("v7.gz.metadata.json")
    target.write_bytes(gzip.compress(local(location).read_bytes()))
    response = register(client, "packed", f"file://{target}")
    assert (200, f"{warehouse.base}/packed") == (response.status, response.json["metadata"]["location"])


def test_a_file_of_another_numbering_starts_at_zero(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A Hadoop table's `v7.metadata.json` has no number in our format."""
    location = moved(client.create_table(["a"], "t").json["metadata-location"], warehouse, "foreign")
    assert 200 == register(client, "foreign", location).status
    after = client.commit(["a"], "foreign", set_properties(k="w")).json
    assert "00000" == local(after["metadata-location"]).name.split("-")[0]
    assert [location] == [entry["metadata-file"] for entry in after["metadata"]["metadata-log"]]


def test_refusals_say_what_the_kit_reads(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Taken by a table or a view, no namespace, and the file of a live table."""
    location = client.create_table(["a"], "t").json["metadata-location"]
    client.create_view(["a"], "v")
    refused = register(client, "t", location)
    assert ((409, "AlreadyExistsException"), "Table already exists: a.t") == (refused.error, refused.message)
    for overwrite in (False, True):
        refused = register(client, "v", location, overwrite=overwrite)
        assert ((409, "AlreadyExistsException"), "View with same name already exists: a.v") == (refused.error, refused.message)
    refused = register(client, "t", location, namespace="b")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    assert register(client, "twin", location).location_taken
    mistyped = register(client, "twin", location.replace("00000-", "00001-"))
    assert mistyped.location_taken
    assert "unless the name of the file is mistyped" in mistyped.message
    assert ["t"] == client.table_names("a")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format-version": 9}', b"\x1f\x8bnot gzip", b"\xff\xfe"])
def test_a_file_that_is_no_metadata_is_refused(client: RestClient, warehouse: FreshWarehouse, content: bytes) -> None:
    """400 for tables and views, without a trace."""
    file = warehouse.directory / "broken.metadata.json"
    file.write_bytes(content)
    position = client.create_namespace("before").position
    for response in (register(client, "t", f"file://{file}"), register_view(client, "t", f"file://{file}")):
        assert 400 == response.status, response.body
        assert response.error[1].endswith("Exception")
    assert position + 1 == client.create_namespace("after").position


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_file_with_too_many_properties_is_refused(client: RestClient, warehouse: FreshWarehouse, kind: str) -> None:
    """400 with the limit, as for a request's properties."""
    created = (client.create_table if kind == "table" else client.create_view)(["a"], "t").json
    metadata = created["metadata"] | {"properties": {f"k{number}": "v" for number in range(10_001)}}
    file = warehouse.directory / "many.metadata.json"
    file.write_text(json.dumps(metadata))
    refused = (register if kind == "table" else register_view)(client, "r", f"file://{file}")
    assert (400, "BadRequestException") == refused.error
    assert "more than 10000 properties" in refused.message


def test_a_file_that_is_not_there_is_not_found(client: RestClient, warehouse: FreshWarehouse) -> None:
    """404 with the file's location."""
    location = f"{warehouse.base}/absent.metadata.json"
    for response in (register(client, "t", location), register_view(client, "t", location)):
        assert (404, "NotFoundException") == response.error
        assert location in response.message


def test_a_file_outside_the_warehouse_is_refused(client: RestClient, shared_catalog: SharedCatalog, warehouse: FreshWarehouse) -> None:
    """Neither by its own location nor by that in the metadata, not even in another warehouse."""
    other = shared_catalog.client(neighbour := shared_catalog.new_warehouse())
    other.create_namespace("a")
    theirs = other.create_table(["a"], "t").json["metadata-location"]
    assert 400 == register(client, "t", theirs).status
    inside = warehouse.directory / "x.metadata.json"
    shutil.copyfile(local(theirs), inside)
    refused = register(client, "t", f"file://{inside}")
    assert 400 == refused.status
    assert str(neighbour.directory) in refused.message
    assert 400 == register(client, "t", "file:///etc/passwd").status
    other.close()


def test_an_overwrite_takes_the_table_over(client: RestClient, warehouse: FreshWarehouse) -> None:
    """The table keeps its name and gets the file's metadata. Earlier versions stay readable in the past."""
    first = client.create_table(["a"], "t", properties={"k": "old"})
    old = client.load_table(["a"], "t")
    location = moved(first.json["metadata-location"], warehouse, "fresh", properties={"k": "new"})
    response = register(client, "t", location, overwrite=True)
    assert (200, location, {"k": "new"}) == (response.status, response.json["metadata-location"], response.json["metadata"]["properties"])
    loaded = client.load_table(["a"], "t")
    assert (response.body, response.headers["etag"]) == (loaded.body, loaded.headers["etag"])
    assert old.headers["etag"] != loaded.headers["etag"]
    assert old.body == client.at(first.position).load_table(["a"], "t").body
    after = client.commit(["a"], "t", set_properties(k="newer")).json["metadata"]
    assert [location] == [entry["metadata-file"] for entry in after["metadata-log"]]


def test_an_overwrite_goes_back_to_an_older_file_of_its_own(client: RestClient) -> None:
    """As a rollback. The location is the table's own."""
    first = client.create_table(["a"], "t").json
    for number in range(3):
        client.commit(["a"], "t", set_properties(k=str(number)))
    response = register(client, "t", first["metadata-location"], overwrite=True)
    assert (200, first["metadata"]) == (response.status, response.json["metadata"])
    assert first["metadata"] == client.load_table(["a"], "t").json["metadata"]


def test_an_overwritten_table_keeps_both_locations(client: RestClient, warehouse: FreshWarehouse) -> None:
    """They are claimed until it is dropped."""
    first = client.create_table(["a"], "t", location=f"{warehouse.base}/old").json
    assert 200 == register(client, "t", moved(first["metadata-location"], warehouse, "new"), overwrite=True).status
    for folder in ("old", "new"):
        assert client.create_table(["a"], "u", location=f"{warehouse.base}/{folder}").location_taken
    assert 204 == client.drop_table(["a"], "t").status
    for folder in ("old", "new"):
        assert 200 == client.create_table(["a"], folder, location=f"{warehouse.base}/{folder}").status


def test_an_overwrite_of_nothing_registers(client: RestClient, warehouse: FreshWarehouse) -> None:
    """With `overwrite` the table need not exist."""
    location = moved(client.create_table(["a"], "t").json["metadata-location"], warehouse, "fresh")
    assert 200 == register(client, "u", location, overwrite=True).status
    assert ["t", "u"] == client.table_names("a")


def test_an_unregistered_table_is_registered_again(client: RestClient) -> None:
    """Under another name, in another namespace."""
    client.create_namespace("b")
    client.create_table(["a"], "t")
    left = client.call("POST", f"{table_path(['a'], 't')}/unregister").json
    response = register(client, "u", left["metadata-location"], namespace="b")
    assert (200, left["metadata"]) == (response.status, response.json["metadata"])


def test_a_view_that_was_dropped_comes_back_by_its_file(client: RestClient) -> None:
    """As for tables. A live view's file is refused."""
    created = client.create_view(["a"], "v").json
    assert register_view(client, "twin", created["metadata-location"]).location_taken
    refused = register_view(client, "v", created["metadata-location"])
    assert ((409, "AlreadyExistsException"), "View already exists: a.v") == (refused.error, refused.message)
    assert 204 == client.call("DELETE", view_path(["a"], "v")).status
    client.create_table(["a"], "t")
    refused = register_view(client, "t", created["metadata-location"])
    assert ((409, "AlreadyExistsException"), "Table with same name already exists: a.t") == (refused.error, refused.message)
    refused = register_view(client, "v", created["metadata-location"], namespace="b")
    assert ((404, "NoSuchNamespaceException"), "Namespace does not exist: b") == (refused.error, refused.message)
    response = register_view(client, "back", created["metadata-location"])
    assert (200, created["metadata"]) == (response.status, response.json["metadata"])
    assert response.json == client.load_view(["a"], "back").json


def test_a_view_file_is_no_table_and_a_table_file_no_view(client: RestClient) -> None:
    """400 for each if the file is in a free location. Otherwise it is not read."""
    view = client.create_view(["a"], "v").json["metadata-location"]
    table = client.create_table(["a"], "t").json["metadata-location"]
    assert register(client, "x", view).location_taken
    client.call("DELETE", view_path(["a"], "v"))
    refused = register(client, "x", view)
    assert (400, False) == (refused.status, refused.location_taken)
    assert register_view(client, "x", table).location_taken
    assert 204 == client.drop_table(["a"], "t").status
    refused = register_view(client, "x", table)
    assert (400, False) == (refused.status, refused.location_taken)


CREDENTIALS = ["s3.secret-access-key", "S3_SECRET_ACCESS_KEY", "apiKey", "my.account_key", "sasToken", "authorization", "db_pwd", "jwt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_with_a_credential_is_no_way_around_the_rule_of_commits(
    client: RestClient, warehouse: FreshWarehouse, overwrite: bool
) -> None:
    """The message has the key without the value. Nothing is registered or replaced, and the location stays free."""
    source = client.create_table(["a"], "t").json["metadata-location"]
    for number, name in enumerate(CREDENTIALS):
        location = moved(source, warehouse, f"place{number}", properties={"owner": "me", name: "canary-77"})
        target = "t" if overwrite else f"n{number}"
        response = register(client, target, location, overwrite=overwrite)
        assert (400, "BadRequestException") == response.error
        assert f"Invalid properties: the property {name!r}" in response.message
        assert b"canary-77" not in response.body
    assert ["t"] == client.table_names("a")
    assert source == client.load_table(["a"], "t").json["metadata-location"]
    clean = moved(source, warehouse, "clean", properties={"owner": "me", "write.metadata.metrics.column.password": "none"})
    assert 200 == register(client, "clean", clean).status


def test_a_view_s_file_with_a_credential_is_refused(client: RestClient, warehouse: FreshWarehouse) -> None:
    """As a table's."""
    source = client.create_view(["a"], "v").json["metadata-location"]
    for number, name in enumerate(CREDENTIALS):
        document = json.loads(local(source).read_bytes())
        document |= {"location": f"{warehouse.base}/view{number}", "properties": {name: "canary-77"}}
        target = warehouse.directory / f"view{number}" / "metadata" / "v1.metadata.json"
        target.parent.mkdir(parents=True)
        target.write_text(json.dumps(document))
        response = register_view(client, f"w{number}", f"file://{target}")
        assert (400, "BadRequestException") == response.error
        assert b"canary-77" not in response.body
    assert ["v"] == client.view_names("a")


@pytest.mark.parametrize("name", CREDENTIALS)
def test_no_other_door_lets_a_credential_in(client: RestClient, name: str) -> None:
    """Creates and commits of tables, views and namespaces, staged and in transactions."""
    assert 200 == client.create_table(["a"], "t").status
    assert 200 == client.create_view(["a"], "v").status
    canary = {name: "canary-77"}
    commit = {"requirements": [], "updates": [set_properties(canary)]}
    responses = [
        client.create_namespace("b", **canary),
        client.call("POST", "/namespaces/a/properties", {"updates": canary}),
        client.create_table(["a"], "u", properties=canary),
        client.create_table(["a"], "u", properties=canary, **{"stage-create": True}),
        client.create_view(["a"], "w", properties=canary),
        client.commit(["a"], "t", set_properties(canary)),
        client.call("POST", view_path(["a"], "v"), commit),
        client.call("POST", "/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["a"], "name": "t"}, **commit}]}),
    ]
    assert [(400, "BadRequestException")] * len(responses) == [response.error for response in responses]
    assert not [response.body for response in responses if b"canary-77" in response.body]
