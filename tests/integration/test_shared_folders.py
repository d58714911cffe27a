"""Two warehouses with the same folder or bucket under different names are refused, because one could purge the other's files."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from uuid_utils.compat import uuid4

from icecore.commands.projects.create_project import create_project
from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.errors import BadRequest, StorageProfileOverlap
from icecore.domain.project import CreateProject
from tests.fixtures.catalog import context
from tests.fixtures.rest_client import RestClient
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog


def create(shared_catalog: SharedCatalog, directory: Path | str, *allowed: Path) -> str:
    """Creates a warehouse at `directory`. Returns its name."""
    name = f"folder-{uuid4().hex[:12]}"
    profile = {"type": "local", "directory": str(directory), "allowed-locations": [f"file://{path}" for path in allowed]}
    shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), CreateWarehouse(name, profile)))
    return name


def test_a_link_to_another_warehouse_is_refused(shared_catalog: SharedCatalog, warehouse: FreshWarehouse, tmp_path: Path) -> None:
    """To its folder, to a parent, to a nested folder that does not exist yet, and as an allowed location."""
    (tmp_path / "same").symlink_to(warehouse.directory)
    (tmp_path / "above").symlink_to(warehouse.directory.parent)
    for directory, *allowed in (
        [tmp_path / "same"],
        [tmp_path / "same" / "below"],
        [tmp_path / "above"],
        [tmp_path / "above" / warehouse.directory.name],
        [tmp_path / "other", tmp_path / "same"],
    ):
        with pytest.raises(BadRequest, match="through a symbolic link"):
            create(shared_catalog, directory, *allowed)
    create(shared_catalog, tmp_path / "above" / f"beside-{uuid4().hex}")


def test_of_two_that_are_created_at_once_one_is_refused(shared_catalog: SharedCatalog, tmp_path: Path) -> None:
    """Neither exists when the other begins."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")

    async def at_once() -> list[object]:
        commands = [
            CreateWarehouse(f"at-once-{uuid4().hex[:12]}", {"type": "local", "directory": str(tmp_path / name)})
            for name in ("folder", "link")
        ]
        creating = (create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command) for command in commands)
        return await asyncio.gather(*creating, return_exceptions=True)

    assert [False, True] == sorted(isinstance(each, BadRequest) for each in shared_catalog.run(at_once()))


def test_other_spellings_of_a_path_are_refused_or_the_same(
    shared_catalog: SharedCatalog, warehouse: FreshWarehouse, client: RestClient
) -> None:
    """`..`, `.` and `//` are refused. A trailing slash is the same path, which is taken."""
    directory = warehouse.directory
    for spelled in (f"{directory}/../{directory.name}", f"{directory}/./", f"/{directory}"):
        with pytest.raises(BadRequest):
            create(shared_catalog, spelled)
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/t").status
    with pytest.raises(StorageProfileOverlap):
        create(shared_catalog, f"{directory}/")


def test_the_location_of_another_warehouse_is_refused(shared_catalog: SharedCatalog, warehouse: FreshWarehouse, tmp_path: Path) -> None:
    """Its folder, a folder above and one below. Two may allow the same location, because claims protect the files."""
    own = warehouse.directory
    for base, *allowed in ([own], [own / "below" / "it"], [tmp_path / "a", own], [tmp_path / "a", own / "below"]):
        with pytest.raises(StorageProfileOverlap, match=f"overlaps {warehouse.base} of the warehouse {warehouse.name}"):
            create(shared_catalog, base, *allowed)
    with pytest.raises(StorageProfileOverlap):
        create(shared_catalog, own.parent)
    first = RestClient(shared_catalog.server.url, create(shared_catalog, tmp_path / "a", tmp_path / "common"))
    with pytest.raises(StorageProfileOverlap, match=f"of the warehouse {first.warehouse}"):
        create(shared_catalog, tmp_path / "common" / "b")
    second = RestClient(shared_catalog.server.url, create(shared_catalog, tmp_path / "b", tmp_path / "common"))
    create(shared_catalog, own.parent / f"{own.name}-beside")
    for client in (first, second):
        assert 200 == client.create_namespace("a").status
    assert 200 == first.create_table(["a"], "t", location=f"file://{tmp_path}/common/t").status
    assert second.create_table(["a"], "t", location=f"file://{tmp_path}/common/t").location_taken
    first.close()
    second.close()


def test_of_two_warehouses_at_once_in_one_location_one_is_refused(shared_catalog: SharedCatalog, tmp_path: Path) -> None:
    """Of many, exactly one is created."""

    async def at_once() -> list[object]:
        profiles = [{"type": "local", "directory": f"{tmp_path}/lake{'/below' * (number % 3)}"} for number in range(12)]
        commands = [CreateWarehouse(f"overlap-{uuid4().hex[:12]}", profile) for profile in profiles]
        creating = (create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command) for command in commands)
        return await asyncio.gather(*creating, return_exceptions=True)

    outcomes = shared_catalog.run(at_once())
    assert 11 == sum(isinstance(each, StorageProfileOverlap) for each in outcomes), outcomes


def test_the_location_of_a_warehouse_in_another_project_is_refused(shared_catalog: SharedCatalog, warehouse: FreshWarehouse) -> None:
    """Without saying which that is."""
    command = CreateWarehouse("theirs", {"type": "local", "directory": f"{warehouse.directory}/below"})
    project_id, name = uuid4(), f"theirs-{uuid4().hex[:12]}"
    shared_catalog.run(create_project(shared_catalog.parts.commands, context("createProject"), CreateProject(name, project_id)))
    elsewhere = replace(context("createWarehouse"), project_id=project_id)
    with pytest.raises(StorageProfileOverlap, match="overlaps that of a warehouse in another project") as refused:
        shared_catalog.run(create_warehouse(shared_catalog.parts.commands, elsewhere, command))
    assert f"of the warehouse {warehouse.name}" not in refused.value.message


def test_a_link_made_later_is_found_when_the_second_is_opened(
    shared_catalog: SharedCatalog, warehouse: FreshWarehouse, client: RestClient, tmp_path: Path
) -> None:
    """503, which is not stored for the key. The other warehouse continues, and this one works once the link is removed."""
    assert 200 == client.create_table(["a"], "t").status
    later = tmp_path / "later"
    other = RestClient(shared_catalog.server.url, create(shared_catalog, later))
    assert 200 == other.create_namespace("a").status
    later.rmdir()
    later.symlink_to(warehouse.directory)
    assert (503, "ServiceUnavailableException") == other.create_table(["a"], "t").error
    assert 200 == client.create_table(["a"], "u").status
    later.unlink()
    assert 200 == other.create_table(["a"], "t").status
    other.close()


def test_a_bucket_by_another_endpoint_is_refused(shared_catalog: SharedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locations would not overlap. With the same endpoint in another spelling they do."""
    monkeypatch.setattr(shared_catalog.parts.commands, "skip_storage_validation", True)
    host = f"{uuid4().hex}.example"

    def create_s3(endpoint: str, bucket: str) -> None:
        profile = {"type": "s3", "region": "eu-central-1", "endpoint": endpoint, "bucket": bucket, "path-style-access": True}
        command = CreateWarehouse(f"bucket-{uuid4().hex[:12]}", profile)
        shared_catalog.run(create_warehouse(shared_catalog.parts.commands, context("createWarehouse"), command))

    create_s3(f"http://{host}", "data")
    with pytest.raises(StorageProfileOverlap):
        create_s3(f"http://{host.upper()}.:80/", "data")
    for endpoint, bucket in ((f"https://{host}", "data"), (f"http://data.{host}", "other"), (f"http://{host}/data", "other")):
        with pytest.raises(BadRequest, match="through another endpoint"):
            create_s3(endpoint, bucket)
    with pytest.raises(BadRequest, match="must not contain the bucket"):
        create_s3(f"http://data.{host}", "data")
