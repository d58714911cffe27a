"""Every namespace has a location: returned as a property, fixed, exclusive among namespaces, and the default folder of its tables."""

import json
import urllib.request
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from icecore.commands.namespaces.create_namespace import create_namespace
from icecore.commands.namespaces.drop_namespace import drop_namespace
from icecore.domain.commands import CreateNamespace, DropNamespace
from icecore.domain.errors import BadRequest
from icecore.domain.identifiers import NamespaceIdentifier
from icecore.projections.verify import verify
from tests.fixtures.catalog import context, opened_catalog
from tests.fixtures.rest_client import RestClient, namespace_path
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog
from tests.integration.test_purge_job import a_table, dropped, the_warehouse


def location(client: RestClient, *levels: str) -> str:
    """The property of a loaded namespace."""
    answer = client.call("GET", namespace_path(levels))
    assert 200 == answer.status, answer.body
    return str(answer.json["properties"]["location"])


def table_location(client: RestClient, levels: list[str], name: str) -> str:
    return str(client.load_table(levels, name).json["metadata"]["location"])


def verified(shared_catalog: SharedCatalog) -> None:
    report = shared_catalog.run(verify(shared_catalog.server.dsn))
    assert report.ok, str(report)


def test_a_namespace_has_a_location_by_its_id(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """The folder named by its id, directly below the base; a child's is beside its parent's. Creation and load return the same."""
    for levels in (("n",), ("n", "child")):
        created = client.create_namespace(*levels, owner="ops")
        found = created.json["properties"]
        assert {"owner": "ops", "location": location(client, *levels)} == found
        base, _, folder = found["location"].rpartition("/")
        assert warehouse.base == base
        said = "select 1 from icecore.namespaces where namespace_id = %s and warehouse_id = %s"
        assert [(1,)] == shared_catalog.rows(said, UUID(folder), warehouse.id)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_tables_and_views_lie_in_the_location_of_their_namespace(client: RestClient, kind: str) -> None:
    """Without a location in the request, in a folder named by the id; a staged table too."""
    match kind:
        case "table":
            found = [client.create_table(["a"], "t"), client.create_table(["a"], "u", **{"stage-create": True})]
        case _:
            found = [client.create_view(["a"], "v")]
    for answer in found:
        assert 200 == answer.status, answer.body
        base, _, folder = answer.json["metadata"]["location"].rpartition("/")
        assert location(client, "a") == base
        UUID(folder)


def test_a_client_names_the_location(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """It keeps its spelling, without a slash at the end; tables without a location of their own are in it."""
    assert 200 == client.create_namespace("n", location=f"{warehouse.base}/mine/").status
    assert f"{warehouse.base}/mine" == location(client, "n")
    assert 200 == client.create_table(["n"], "t").status
    assert table_location(client, ["n"], "t").startswith(f"{warehouse.base}/mine/")
    verified(shared_catalog)


@pytest.mark.parametrize(
    "place", ["/elsewhere/n", "", "/%2e%2e", "/../n", "/a*b", "/" + "x" * 226], ids=["outside", "base", "percent", "dots", "star", "long"]
)
def test_a_location_that_the_warehouse_does_not_allow_is_refused(client: RestClient, warehouse: FreshWarehouse, place: str) -> None:
    """400, and the namespace does not exist. A long one would leave no room for the names of tables."""
    named = f"file://{place}" if place.startswith("/elsewhere") else warehouse.base + place
    refused = client.create_namespace("n", location=named)
    assert (400, "BadRequestException") == refused.error
    assert refused.message.startswith("Invalid location: ")
    assert 404 == client.call("GET", "/namespaces/n").status


def test_locations_of_namespaces_do_not_overlap(client: RestClient, warehouse: FreshWarehouse) -> None:
    """None equals, contains or is in another's, parents included."""
    assert 200 == client.create_namespace("n", location=f"{warehouse.base}/x/y").status
    for place in ("x/y", "x", "x/y/z"):
        assert client.create_namespace("m", location=f"{warehouse.base}/{place}").location_taken
        assert client.create_namespace("n", "child", location=f"{warehouse.base}/{place}").location_taken
    assert 200 == client.create_namespace("m", location=f"{warehouse.base}/x/yz").status


def test_a_table_lies_inside_a_namespace_or_outside(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """Strictly inside its own or another namespace's location, or outside of all; it never equals or contains one."""
    assert 200 == client.create_namespace("n", location=f"{warehouse.base}/x/y").status
    for place in ("x/y", "x"):
        assert client.create_table(["n"], "t", location=f"{warehouse.base}/{place}").location_taken
        assert client.create_view(["a"], "t", location=f"{warehouse.base}/{place}").location_taken
        path = {"write.data.path": f"{warehouse.base}/{place}"}
        assert client.create_table(["n"], "t", properties=path).location_taken
    for number, (levels, place) in enumerate(((["n"], "x/y/t"), (["a"], "x/y/u"), (["n"], "z"), (["n"], "x/t"))):
        assert 200 == client.create_table(levels, f"t{number}", location=f"{warehouse.base}/{place}").status
    assert client.create_table(["n"], "t", location=f"{warehouse.base}/x/y/t/below").location_taken
    moved = client.commit(["n"], "t0", {"action": "set-location", "location": f"{warehouse.base}/x/y"})
    assert moved.location_taken
    verified(shared_catalog)


def test_a_namespace_takes_no_location_with_tables_in_it(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Nor one inside or equal to a table's location."""
    assert 200 == client.create_table(["a"], "t", location=f"{warehouse.base}/x/t").status
    for place in ("x", "x/t", "x/t/n"):
        assert client.create_namespace("n", location=f"{warehouse.base}/{place}").location_taken
    assert 204 == client.drop_table(["a"], "t").status
    assert 200 == client.create_namespace("n", location=f"{warehouse.base}/x").status


def test_the_location_cannot_be_changed_or_removed(client: RestClient, warehouse: FreshWarehouse) -> None:
    """400, without a part of the change. Setting it to its value changes nothing."""
    before = location(client, "a")
    for body in (
        {"updates": {"location": f"{warehouse.base}/other", "k": "1"}},
        {"removals": ["location"], "updates": {"k": "1"}},
    ):
        refused = client.call("POST", "/namespaces/a/properties", body)
        assert (400, "BadRequestException") == refused.error
        assert "the location of a namespace cannot be changed or removed" in refused.message
    assert {"location": before} == client.call("GET", "/namespaces/a").json["properties"]
    same = client.call("POST", "/namespaces/a/properties", {"updates": {"location": before, "k": "1"}})
    assert {"updated": ["location", "k"], "removed": [], "missing": []} == same.json
    assert {"location": before, "k": "1"} == client.call("GET", "/namespaces/a").json["properties"]


def test_a_dropped_namespace_frees_its_location(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """For a namespace and for a table."""
    here: dict[str, Any] = {"location": f"{warehouse.base}/here"}
    for _ in range(2):
        assert 200 == client.create_namespace("n", **here).status
        assert client.create_table(["a"], "t", **here).location_taken
        assert 204 == client.call("DELETE", "/namespaces/n").status
    assert 200 == client.create_table(["a"], "t", **here).status
    verified(shared_catalog)


def test_the_location_stays_taken_while_a_moved_table_lies_in_it(
    client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog
) -> None:
    """The namespace can be dropped, but no other takes its location before the table is dropped. The table keeps its location."""
    here = f"{warehouse.base}/here"
    assert 200 == client.create_namespace("n", location=here).status
    assert 200 == client.create_table(["n"], "t").status
    lies = table_location(client, ["n"], "t")
    assert 204 == client.rename_table((["n"], "t"), (["a"], "t")).status
    assert lies == table_location(client, ["a"], "t")
    assert 204 == client.call("DELETE", "/namespaces/n").status
    assert client.create_namespace("n", location=here).location_taken
    assert client.create_namespace("n", location=lies).location_taken
    assert client.create_table(["a"], "u", location=here).location_taken
    assert 204 == client.drop_table(["a"], "t").status
    assert 200 == client.create_namespace("n", location=here).status
    verified(shared_catalog)


async def test_the_location_stays_taken_until_a_purge_has_ended(database: str, tmp_path: Path) -> None:
    """The files of a table that is being purged are in it. The purge deletes nothing else."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        here = tmp_path / "warehouse" / "here"
        warehouse, placed = await the_warehouse(catalog), CreateNamespace(NamespaceIdentifier(("n",)), {"location": f"file://{here}"})
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, placed)
        await a_table(catalog, warehouse, "t", here / "t")
        other = here / "other-file"
        other.write_bytes(b"kept")
        await dropped(catalog, warehouse, "t")
        await drop_namespace(catalog.commands, context("dropNamespace"), warehouse, DropNamespace(placed.namespace))
        with pytest.raises(BadRequest, match="Location is already taken"):
            await create_namespace(catalog.commands, context("createNamespace"), warehouse, placed)
        assert 1 == await catalog.purge.run_once()
        await create_namespace(catalog.commands, context("createNamespace"), warehouse, placed)
        assert [other] == [path for path in here.rglob("*") if path.is_file()]


def test_the_events_have_the_location(client: RestClient, warehouse: FreshWarehouse, shared_catalog: SharedCatalog) -> None:
    """In the log with its key, and as a property in the published event."""
    position = client.create_namespace("n", k="1").position
    found = location(client, "n")
    said = "select convert_from(state, 'UTF8')::jsonb from icecore.events where notification_id = %s"
    ((state,),) = shared_catalog.rows(said, position)
    assert (f"local|{found}/", {"k": "1", "location": found}) == (state["location-key"], state["properties"])
    with urllib.request.urlopen(f"{shared_catalog.server.url}/history/v1/events?after={position - 1}&to={position}") as answer:
        (event,) = json.load(answer)["events"]
    assert {"k": "1", "location": found} == event["data"]["properties-set"]


def test_the_past_has_its_location(client: RestClient, warehouse: FreshWarehouse) -> None:
    """As of a position before the drop, the namespace is loaded with the location it had."""
    first = client.create_namespace("n", location=f"{warehouse.base}/first")
    client.call("DELETE", "/namespaces/n")
    client.create_namespace("n", location=f"{warehouse.base}/second")
    assert f"{warehouse.base}/first" == location(client.at(first.position), "n")
    assert f"{warehouse.base}/second" == location(client, "n")


def test_concurrent_creations_at_a_location_have_one_winner(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Of 8 concurrent requests with different names one succeeds; the others get 400."""
    properties = {"location": f"{warehouse.base}/race"}
    bodies = [{"namespace": [f"race{number}"], "properties": properties} for number in range(8)]
    answers = client.together([("POST", "/namespaces", body, None) for body in bodies])
    assert [200] + [400] * 7 == sorted(answer.status for answer in answers)


@pytest.mark.parametrize("character", list("*?${}'\"\\`<>#%"))
def test_a_name_that_no_path_can_have_is_refused(client: RestClient, character: str) -> None:
    """Engines put the names of tables into locations, where these characters are not allowed. The message is about the name."""
    name = f"a{character}b"
    for kind, refused in (
        ("table name", client.create_table(["a"], name)),
        ("view name", client.create_view(["a"], name)),
        ("namespace level", client.create_namespace(name)),
        ("namespace level", client.create_namespace("a", name)),
    ):
        assert (400, "BadRequestException") == refused.error
        assert f"Invalid {kind}: must not contain any of * ? $ {{ }} ' \" \\ ` < > # %" in refused.message
    assert 200 == client.create_table(["a"], "t").status
    assert 400 == client.rename_table((["a"], "t"), (["a"], name)).status
    assert 404 == client.load_table(["a"], name).status


@pytest.mark.parametrize("name", [".", "..", "a/../b", "/a", "a/", "a//b"])
def test_a_name_with_an_empty_or_dot_segment_is_refused(client: RestClient, name: str) -> None:
    """A name may contain slashes, if what is between them can be a folder."""
    refused = client.create_table(["a"], name)
    assert (400, "BadRequestException") == refused.error
    assert "Invalid table name: must have no '.', '..' or empty segment" in refused.message


@pytest.mark.parametrize("name", ["a b", "a+b", "a.b", "a/b", "Straße", "名前", "@home", "=", "~", "a:b", "a&b", "x" * 222])
def test_every_allowed_name_makes_a_legal_path(client: RestClient, name: str) -> None:
    """A table is created where Trino would put it: in the namespace's location, by its name and a UUID without dashes."""
    place = f"{location(client, 'a')}/{name}-{'0' * 32}"
    answer = client.create_table(["a"], name, location=place, **{"stage-create": True})
    assert 200 == answer.status, answer.body
    assert place == answer.json["metadata"]["location"]


def test_a_folder_that_the_file_system_refuses_is_refused(client: RestClient) -> None:
    """File systems allow 255 bytes for a folder. Without a location of the client, the folder has the table's id."""
    name = "名" * 255
    refused = client.create_table(["a"], name, location=f"{location(client, 'a')}/{name}", **{"stage-create": True})
    assert (400, "BadRequestException") == refused.error
    assert "a name in it is longer than the file system allows" in refused.message
    assert 200 == client.create_table(["a"], name, **{"stage-create": True}).status
