"""The past over HTTP: a warehouse with a position or a time is read as of then, and refuses every write."""

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest

from tests.fixtures.rest_client import SCHEMA, RestClient, identifier, namespace_path, set_properties, table_path, view_path, view_version
from tests.fixtures.shared_server import SharedCatalog

Listing = dict[str, Any]


def everything(client: RestClient) -> Listing:
    """Everything that a client can read of a warehouse: namespaces with properties, tables and views with their responses."""
    found: Listing = {}

    def walk(levels: list[str]) -> None:
        query = f"?parent={'%1F'.join(quote(level, safe='') for level in levels)}" if levels else ""
        for child in client.call("GET", f"/namespaces{query}").json["namespaces"]:
            found["/".join(child)] = client.call("GET", namespace_path(child)).json
            for name in client.table_names(*child):
                response = client.load_table(child, name)
                found[f"table {'/'.join(child)} {name}"] = (
                    response.body,
                    response.headers["etag"],
                    client.load_table(child, name, "?snapshots=refs").body,
                )
            for name in client.view_names(*child):
                found[f"view {'/'.join(child)} {name}"] = client.load_view(child, name).body
            walk(child)

    walk([])
    return found


def prefix_of(client: RestClient, reference: str) -> str:
    response = client.call_root("GET", f"/config?warehouse={reference}")
    assert 200 == response.status, response.body
    prefix: str = response.json["overrides"]["prefix"]
    return prefix


def recorded_at(shared_catalog: SharedCatalog, position: int) -> datetime:
    ((at,),) = shared_catalog.rows("select recorded_at from icecore.events where notification_id = %s", position)
    assert isinstance(at, datetime)
    return at


def story(client: RestClient) -> list[tuple[str, str, Any]]:
    """Commands of every kind, all of which succeed."""
    rename = {"source": identifier(["a"], "t"), "destination": identifier(["a", "b"], "T")}
    change = {"identifier": identifier(["a", "b"], "T"), "requirements": [], "updates": [set_properties(k="3")]}
    change_u = {"identifier": identifier(["a"], "u"), "requirements": [], "updates": [set_properties(k="3")]}
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    column = {"id": 2, "name": "name", "type": "string", "required": False}
    wider = {"type": "struct", "fields": [*SCHEMA["fields"], column]}
    return [
        ("POST", "/namespaces", {"namespace": ["a", "b"], "properties": {"k": "1"}}),
        ("POST", "/namespaces/a/tables", {"name": "t", "schema": SCHEMA}),
        ("POST", "/namespaces/a/tables", {"name": "u", "schema": SCHEMA}),
        ("POST", table_path(["a"], "t"), {"requirements": [], "updates": [set_properties(k="1")]}),
        (
            "POST",
            table_path(["a"], "t"),
            {"updates": [{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}]},
        ),
        ("POST", "/namespaces/a/views", {"name": "v", "schema": SCHEMA, "view-version": view_version("select 1"), "properties": {}}),
        ("POST", "/namespaces/a/properties", {"updates": {"k": "v"}, "removals": []}),
        ("POST", "/tables/rename", rename),
        (
            "POST",
            table_path(["a", "b"], "T"),
            {"updates": [{"action": "add-snapshot", "snapshot": {**snapshot, "manifest-list": "LIST"}}, reference]},
        ),
        ("POST", "/transactions/commit", {"table-changes": [change, change_u]}),
        ("POST", view_path(["a"], "v"), {"requirements": [], "updates": [set_properties(k="1")]}),
        ("POST", "/views/rename", {"source": identifier(["a"], "v"), "destination": identifier(["a", "b"], "V")}),
        ("POST", table_path(["a", "b"], "T"), {"updates": [{"action": "remove-snapshots", "snapshot-ids": [1]}]}),
        ("DELETE", table_path(["a"], "u"), None),
        ("POST", "/namespaces/a/tables", {"name": "u", "schema": wider}),
        ("POST", "/namespaces/a/properties", {"updates": {"l": "v"}, "removals": ["k"]}),
        ("DELETE", view_path(["a", "b"], "V"), None),
        ("POST", f"{table_path(['a', 'b'], 'T')}/unregister", None),
        ("DELETE", "/namespaces/a%1Fb", None),
        ("POST", "/namespaces", {"namespace": ["A", "B"], "properties": {}}),
    ]


def done(client: RestClient, method: str, path: str, body: Any) -> int:
    """Sends one command. Returns its position."""
    if "LIST" in repr(body):
        location = client.load_table(["a", "b"], "T").json["metadata"]["location"]
        body["updates"][0]["snapshot"]["manifest-list"] = f"{location}/metadata/snap-1.avro"
    response = client.call(method, path, body)
    assert response.status in (200, 204), response.body
    return response.position


def test_a_recorded_run_is_read_back_as_of_every_position(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """Everything is recorded after each command, and is the same as of each position and time."""
    recording: dict[int, Listing] = {}
    for command in story(client):
        position = done(client, *command)
        recording[position] = everything(client)
    assert 20 == len(recording)
    positions = list(recording)
    random.Random(1).shuffle(positions)
    for position in positions:
        assert recording[position] == everything(client.at(position)), position
        time = recorded_at(shared_catalog, position).isoformat()
        assert recording[position] == everything(client.at(time)), time


def test_a_position_inside_a_command_means_the_one_before(client: RestClient) -> None:
    """A transaction over two tables has two positions. As of the first, neither table has changed."""
    for name in ("t", "u"):
        client.create_table(["a"], name)
    before = everything(client)
    changes = [{"identifier": identifier(["a"], name), "requirements": [], "updates": [set_properties(k="v")]} for name in ("t", "u")]
    position = client.call("POST", "/transactions/commit", {"table-changes": changes}).position
    after = everything(client)
    assert before != after
    assert before == everything(client.at(position - 1)) == everything(client.at(position - 2))
    assert after == everything(client.at(position))


def test_config_returns_a_prefix_that_is_pinned(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """By position and by time: the id and the position of the last whole command."""
    position = client.create_table(["a"], "t").position
    then = everything(client)
    warehouse_id = prefix_of(client, client.warehouse)
    assert f"{warehouse_id}@{position}" == prefix_of(client, f"{client.warehouse}@{position}")
    assert f"{warehouse_id}@{position}" == prefix_of(client, f"{warehouse_id}@{position}")
    at = recorded_at(shared_catalog, position)
    client.drop_table(["a"], "t")
    east = at.astimezone(timezone(timedelta(hours=2)))
    spellings = [at.isoformat(), at.isoformat().replace("+00:00", "Z"), east.isoformat(), quote(east.isoformat(), safe="")]
    for spelling in spellings:
        prefix = prefix_of(client, f"{client.warehouse}@{spelling}")
        assert f"{warehouse_id}@{position}" == prefix
        pinned = RestClient(shared_catalog.server.url, prefix)
        assert then == everything(pinned)
        pinned.close()


def test_a_pinned_prefix_stays_where_it_is(client: RestClient) -> None:
    """A time is converted to a position once. Later events are not visible with the prefix."""
    client.create_table(["a"], "t")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    position = prefix_of(client, f"{client.warehouse}@{now}").partition("@")[2]
    before = everything(client)
    client.create_table(["a"], "u")
    assert before == everything(client.at(position))


@pytest.mark.parametrize(
    "point", ["", "-1", "1.5", "abc", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "9" * 19, "1@2", "٣", "+1"]
)
def test_what_is_no_point_in_time_is_refused(client: RestClient, point: str) -> None:
    """400 from config and from reads."""
    assert (400, "BadRequestException") == client.call_root("GET", f"/config?warehouse={client.warehouse}@{quote(point)}").error
    assert (400, "BadRequestException") == client.at(point).call("GET", "/namespaces").error


def test_what_lies_beyond_the_end_of_the_log_is_refused(client: RestClient) -> None:
    """400 from config, reads and events: the position is of another log, or this one was restored."""
    ahead = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for point in (ahead, "999999999"):
        assert (400, "BadRequestException") == client.call_root("GET", f"/config?warehouse={client.warehouse}@{point}").error
        assert (400, "BadRequestException") == client.at(point).call("GET", "/namespaces").error
        assert "beyond the end of the log" in client.at(point).call("GET", "/namespaces").message


def test_a_warehouse_does_not_exist_before_its_creation(client: RestClient, shared_catalog: SharedCatalog) -> None:
    """404 as of an earlier position, for config and for reads. As of its own position it is empty."""
    warehouse_id = prefix_of(client, client.warehouse)
    ((created,),) = shared_catalog.rows("select notification_id from icecore.events where originator_id = %s", warehouse_id)
    for reference in (client.warehouse, warehouse_id):
        refused = client.call_root("GET", f"/config?warehouse={reference}@{created - 1}")
        assert (404, "NoSuchWarehouseException") == refused.error
    assert (404, "NoSuchWarehouseException") == client.at(created - 1).call("GET", "/namespaces").error
    assert (404, "NoSuchWarehouseException") == client.at("2001-01-01T00:00:00Z").call("GET", "/namespaces").error
    assert {} == everything(client.at(created))


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/namespaces", {"namespace": ["n"]}),
    ("POST", "/namespaces/a/properties", {"updates": {"k": "v"}}),
    ("DELETE", "/namespaces/a", None),
    ("POST", "/namespaces/a/tables", {"name": "n", "schema": SCHEMA}),
    ("POST", "/namespaces/a/tables", {"name": "n", "schema": SCHEMA, "stage-create": True}),
    ("POST", "/namespaces/a/register", {"name": "n", "metadata-location": "FILE"}),
    ("POST", table_path(["a"], "t"), {"requirements": [], "updates": [set_properties(k="v")]}),
    ("POST", table_path(["a"], "t"), {"requirements": [], "updates": []}),
    ("POST", "/transactions/commit", {"table-changes": [{"identifier": identifier(["a"], "t"), "updates": [set_properties(k="v")]}]}),
    ("DELETE", table_path(["a"], "t"), None),
    ("DELETE", f"{table_path(['a'], 't')}?purgeRequested=true", None),
    ("POST", f"{table_path(['a'], 't')}/unregister", None),
    ("POST", "/tables/rename", {"source": identifier(["a"], "t"), "destination": identifier(["a"], "n")}),
    ("POST", "/namespaces/a/views", {"name": "n", "schema": SCHEMA, "view-version": view_version("select 1"), "properties": {}}),
    ("POST", "/namespaces/a/register-view", {"name": "n", "metadata-location": "FILE"}),
    ("POST", view_path(["a"], "v"), {"requirements": [], "updates": [set_properties(k="v")]}),
    ("DELETE", view_path(["a"], "v"), None),
    ("POST", "/views/rename", {"source": identifier(["a"], "v"), "destination": identifier(["a"], "n")}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=lambda value: value if isinstance(value, str) and "/" in value else "")
def test_every_write_to_a_past_is_refused(
    client: RestClient, shared_catalog: SharedCatalog, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """406, with and without a key, without an effect."""
    file = client.create_table(["a"], "t").json["metadata-location"]
    position = client.create_view(["a"], "v").position
    if body is not None and body.get("metadata-location"):
        body = {**body, "metadata-location": file}
    before = everything(client)
    ((events,),) = shared_catalog.rows("select count(*) from icecore.events")
    for key in (None, "0198f3c0-1234-7abc-8def-0123456789ab"):
        refused = client.at(position).call(method, path, body, key=key)
        assert (406, "UnsupportedOperationException") == refused.error
        assert "past" in refused.message
    assert before == everything(client)
    assert [(events,)] == shared_catalog.rows("select count(*) from icecore.events")


def test_a_past_table_loads_without_its_file(client: RestClient, warehouse: Any) -> None:
    """The check for the file applies only to the current state. A purged table can still be read in the past."""
    created = client.create_table(["a"], "t")
    for file in warehouse.directory.rglob("*.metadata.json"):
        file.unlink()
    assert (404, "NotFoundException") == client.load_table(["a"], "t").error
    assert created.body == client.at(created.position).load_table(["a"], "t").body


def test_etags_of_a_past_hold(client: RestClient) -> None:
    """304 for the same version. A changed current state has another one."""
    created = client.create_table(["a"], "t")
    then = client.at(created.position)
    assert 304 == then.load_table(["a"], "t", If_None_Match=created.headers["etag"]).status
    changed = client.commit(["a"], "t", set_properties(k="v"))
    assert 200 == then.load_table(["a"], "t", If_None_Match=changed.headers["etag"]).status
    assert 304 == then.load_table(["a"], "t", If_None_Match=created.headers["etag"]).status
