"""A registration claims the files it depends on, so that another table's purge cannot delete them."""

import shutil
from pathlib import Path

from tests.fixtures.rest_client import RestClient, RestResponse, table_path
from tests.fixtures.shared_server import FreshWarehouse
from tests.fixtures.snapshots import snapshot_updates
from tests.integration.test_register import local, register


def create(client: RestClient, name: str, location: str, **properties: str) -> RestResponse:
    return client.create_table(["a"], name, location=location, properties=properties)


def unregister(client: RestClient, name: str) -> str:
    response = client.call("POST", f"{table_path(['a'], name)}/unregister")
    assert 200 == response.status
    return str(response.json["metadata-location"])


def copied(source: str, folder: Path) -> str:
    folder.mkdir()
    shutil.copy(local(source), folder / "00000-c.metadata.json")
    return f"file://{folder}/00000-c.metadata.json"


def test_the_places_of_files_that_a_registered_document_names_are_held(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A manifest list below a former write.data.path: the location is claimed before and after the table is registered again."""
    shared = f"{warehouse.base}/shared"
    create(client, "t", f"{warehouse.base}/t", **{"write.data.path": shared})
    updates = snapshot_updates(f"{shared}/snap-1.avro")
    assert 200 == client.commit(["a"], "t", *updates, {"action": "remove-properties", "removals": ["write.data.path"]}).status
    assert create(client, "u", shared).location_taken
    assert 200 == register(client, "t", unregister(client, "t")).status
    for place in (shared, f"{shared}/below"):
        assert create(client, "u", place).location_taken
    # Registering over itself and dropping it are not hindered.
    assert 200 == register(client, "t", client.load_table(["a"], "t").json["metadata-location"], overwrite=True).status
    assert 204 == client.drop_table(["a"], "t").status
    assert 200 == create(client, "u", shared).status


def test_the_file_that_a_table_is_registered_from_is_held(client: RestClient, warehouse: FreshWarehouse) -> None:
    """If it is outside the table's location. Other files in its folder can be registered too."""
    sources = []
    for name in ("c", "d"):
        create(client, name, f"{warehouse.base}/{name}")
        sources.append(copied(unregister(client, name), warehouse.directory / f"imports-{name}"))
    second = local(sources[0]).with_name("00000-d.metadata.json")
    shutil.move(local(sources[1]), second)
    assert 200 == register(client, "c", sources[0]).status
    assert create(client, "u", f"{warehouse.base}/imports-c").location_taken
    assert 200 == register(client, "d", f"file://{second}").status
    assert 204 == client.drop_table(["a"], "c").status
    assert 204 == client.drop_table(["a"], "d").status
    assert 200 == create(client, "u", f"{warehouse.base}/imports-c").status


def test_a_location_claimed_by_another_table_is_not_registered(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A document that names a manifest list in it is refused."""
    shared = f"{warehouse.base}/shared"
    create(client, "t", f"{warehouse.base}/t")
    assert 200 == client.commit(["a"], "t", *snapshot_updates(f"{shared}/metadata/snap-1.avro")).status
    location = unregister(client, "t")
    assert 200 == create(client, "u", shared).status
    assert register(client, "t", location).location_taken


def test_a_file_beside_the_table_s_folder_closes_no_folder_of_many_tables(client: RestClient, warehouse: FreshWarehouse) -> None:
    """In the parent folder of the table's location, only the file is claimed."""
    create(client, "t", f"{warehouse.base}/x/t")
    assert 200 == client.commit(["a"], "t", *snapshot_updates(f"{warehouse.base}/x/snap-1.avro")).status
    assert 200 == register(client, "t", unregister(client, "t")).status
    assert 200 == create(client, "u", f"{warehouse.base}/x/u").status
    assert create(client, "v", f"{warehouse.base}/x").location_taken


def test_a_document_with_files_in_too_many_folders_is_refused(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Each commit of a table carries its claims."""
    create(client, "t", f"{warehouse.base}/t")
    updates = [update for number in range(1, 102) for update in snapshot_updates(f"{warehouse.base}/x{number}/snap.avro", number)]
    assert 200 == client.commit(["a"], "t", *updates).status
    refused = register(client, "t", unregister(client, "t"))
    assert (400, "BadRequestException") == refused.error
    assert "at most 100 locations" in refused.message
