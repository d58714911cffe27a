"""Clients cannot change a table's UUID, repeat row ids, exhaust its numbers, or store unreadable values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.rest_client import (
    SCHEMA,
    RestClient,
    RestResponse,
    identifier,
    set_properties,
    staged_create_updates,
    table_path,
    view_path,
)
from tests.fixtures.shared_server import FreshWarehouse

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
COLUMN = {"id": 2, "name": "more", "type": "int", "required": False}
SPEC = {"spec-id": 0, "fields": [{"name": "b", "transform": "bucket[4]", "source-id": 1}]}
ORDER = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}


def register(client: RestClient, name: str, location: str, kind: str = "register") -> RestResponse:
    return client.call("POST", f"/namespaces/a/{kind}", {"name": name, "metadata-location": location})


def copied(client: RestClient, warehouse: FreshWarehouse, *, properties: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """The document of a new table at another location in the warehouse, with some fields changed."""
    created = client.create_table(["a"], f"t{uuid4().hex}", properties=properties or {}).json["metadata"]
    document: dict[str, Any] = created | {"location": f"{warehouse.base}/{uuid4().hex}", "metadata-log": [], "table-uuid": str(uuid4())}
    return document | fields


def file_of(warehouse: FreshWarehouse, document: dict[str, Any] | bytes) -> str:
    target: Path = warehouse.directory / f"{uuid4().hex}.metadata.json"
    target.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return f"file://{target}"


def snapshot(warehouse: FreshWarehouse, snapshot_id: int, **fields: Any) -> dict[str, Any]:
    sent = {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id,
        "timestamp-ms": 1_700_000_000_000 + snapshot_id,
        "manifest-list": f"{warehouse.base}/{snapshot_id}.avro",
        "summary": {"operation": "append"},
    }
    return {"action": "add-snapshot", "snapshot": {**sent, **fields}}


def staged(client: RestClient, name: str, uuid: str) -> RestResponse:
    """The commit that completes a staged create, as Java sends it."""
    location = client.create_table(["a"], name, **{"stage-create": True}).json["metadata"]["location"]
    updates = staged_create_updates(uuid, location)
    return client.commit(["a"], name, *updates, requirements=[{"type": "assert-create"}])


def test_the_uuid_of_a_table_stays(client: RestClient) -> None:
    """Neither invalid text, nor another table's, nor a new UUID replaces it. The table's own UUID in any spelling changes nothing."""
    other = client.create_table(["a"], "other").json["metadata"]["table-uuid"]
    client.create_table(["a"], "t")
    before = client.load_table(["a"], "t")
    own = before.json["metadata"]["table-uuid"]
    for uuid in ("oops", "", other, str(uuid4())):
        assert (400, "IllegalArgumentException") == client.commit(["a"], "t", {"action": "assign-uuid", "uuid": uuid}).error, uuid
        change: dict[str, Any] = {
            "identifier": identifier(["a"], "t"),
            "requirements": [],
            "updates": [set_properties(k="v"), {"action": "assign-uuid", "uuid": uuid}],
        }
        assert 400 == client.call("POST", "/transactions/commit", {"table-changes": [change]}).status, uuid
    for uuid in (own, own.upper()):
        assert 200 == client.commit(["a"], "t", {"action": "assign-uuid", "uuid": uuid}).status
    assert before.body == client.load_table(["a"], "t").body
    assert 200 == client.commit(["a"], "t", set_properties(k="v"), requirements=[{"type": "assert-table-uuid", "uuid": own}]).status


def test_the_uuid_of_a_view_stays(client: RestClient) -> None:
    """As for a table."""
    own = client.create_view(["a"], "v").json["metadata"]["view-uuid"]
    for uuid in ("oops", "", str(uuid4())):
        body = {"requirements": [], "updates": [{"action": "assign-uuid", "uuid": uuid}]}
        assert (400, "IllegalArgumentException") == client.call("POST", view_path(["a"], "v"), body).error
    body = {"requirements": [], "updates": [{"action": "assign-uuid", "uuid": own}]}
    assert (200, own) == ((response := client.call("POST", view_path(["a"], "v"), body)).status, response.json["metadata"]["view-uuid"])


def test_a_table_begins_with_a_uuid(client: RestClient) -> None:
    """A staged create may set it."""
    for uuid in ("oops", "", "{9c12d441-03fe-4693-9a96-a0705ddf69c1}", "9c12d44103fe46939a96a0705ddf69c1"):
        assert (400, "IllegalArgumentException") == staged(client, "t", uuid).error, uuid
    assert [] == client.table_names("a")
    uuid = str(uuid4())
    assert (200, uuid) == ((response := staged(client, "t", uuid)).status, response.json["metadata"]["table-uuid"])


@pytest.mark.parametrize("uuid", ["oops", "", "9c12d44103fe46939a96a0705ddf69c1"])
def test_a_file_whose_uuid_is_none_is_not_registered(client: RestClient, warehouse: FreshWarehouse, uuid: str) -> None:
    """Tables and views."""
    response = register(client, "r", file_of(warehouse, copied(client, warehouse, **{"table-uuid": uuid})))
    assert (400, "IllegalArgumentException") == response.error
    view = client.create_view(["a"], "v").json["metadata"] | {"location": f"{warehouse.base}/v", "view-uuid": uuid}
    assert (400, "IllegalArgumentException") == register(client, "r", file_of(warehouse, view), "register-view").error


def test_ranges_of_row_ids_do_not_overlap(client: RestClient, warehouse: FreshWarehouse) -> None:
    """A range may begin above the next row id, and the next one begins after it. It may not begin below."""
    client.create_table(["a"], "t", properties={"format-version": "3"})
    grown = client.commit(["a"], "t", snapshot(warehouse, 1, **{"first-row-id": 100, "added-rows": 10}))
    assert (200, 110) == (grown.status, grown.json["metadata"]["next-row-id"])
    refused = client.commit(["a"], "t", snapshot(warehouse, 2, **{"first-row-id": 109, "added-rows": 10}))
    assert 400 <= refused.status < 500
    exhausting = snapshot(warehouse, 2, **{"first-row-id": LONG_MAX - 5, "added-rows": 6})
    assert (400, "ValidationException") == client.commit(["a"], "t", exhausting).error
    grown = client.commit(["a"], "t", snapshot(warehouse, 2, **{"first-row-id": 110, "added-rows": 1}))
    assert (200, 111) == (grown.status, grown.json["metadata"]["next-row-id"])
    document = grown.json["metadata"] | {"location": f"{warehouse.base}/r", "metadata-log": [], "next-row-id": 110}
    refused = register(client, "r", file_of(warehouse, document))
    assert ((400, "IllegalArgumentException"), "Invalid next-row-id 110: snapshot 2 has higher row ids") == (refused.error, refused.message)
    assert 200 == register(client, "r", file_of(warehouse, document | {"next-row-id": 111})).status


def _schemas(document: dict[str, Any]) -> dict[str, Any]:
    last = {**document["schemas"][0], "schema-id": INT_MAX}
    return {"schemas": [last], "current-schema-id": INT_MAX}


def _columns(document: dict[str, Any]) -> dict[str, Any]:
    return {"last-column-id": INT_MAX}


def _specs(document: dict[str, Any]) -> dict[str, Any]:
    last = {"spec-id": INT_MAX, "fields": [{"name": "i", "transform": "identity", "source-id": 1, "field-id": 1000}]}
    return {"partition-specs": [*document["partition-specs"], last], "last-partition-id": 1000}


def _partition_fields(document: dict[str, Any]) -> dict[str, Any]:
    last = {"spec-id": 1, "fields": [{"name": "i", "transform": "identity", "source-id": 1, "field-id": INT_MAX}]}
    return {"partition-specs": [*document["partition-specs"], last], "last-partition-id": INT_MAX}


def _orders(document: dict[str, Any]) -> dict[str, Any]:
    fields = [{"source-id": 1, "transform": "identity", "direction": "desc", "null-order": "nulls-first"}]
    return {"sort-orders": [*document["sort-orders"], {"order-id": INT_MAX, "fields": fields}]}


def _sequence(_: dict[str, Any]) -> dict[str, Any]:
    return {"last-sequence-number": LONG_MAX}


def _rows(_: dict[str, Any]) -> dict[str, Any]:
    return {"format-version": 3, "next-row-id": LONG_MAX}


TWO_COLUMNS = {**SCHEMA, "fields": [*SCHEMA["fields"], COLUMN]}
FIELDS_AFTER_THE_LAST = [
    {"name": "x", "transform": "identity", "source-id": 1, "field-id": INT_MAX},
    {"name": "y", "transform": "bucket[4]", "source-id": 1, "field-id": INT_MAX + 1},
]


@pytest.mark.parametrize(
    ("last", "update"),
    [
        (_schemas, {"action": "add-schema", "schema": TWO_COLUMNS}),
        (_columns, {"action": "add-schema", "schema": {**SCHEMA, "fields": [*SCHEMA["fields"], {**COLUMN, "id": INT_MAX + 1}]}}),
        (_specs, {"action": "add-spec", "spec": SPEC}),
        (_partition_fields, {"action": "add-spec", "spec": {"spec-id": 0, "fields": FIELDS_AFTER_THE_LAST}}),
        (_orders, {"action": "add-sort-order", "sort-order": ORDER}),
        (_sequence, {"sequence-number": LONG_MAX, "parent-snapshot-id": 1}),
        (_rows, {"first-row-id": LONG_MAX, "added-rows": 1}),
    ],
)
def test_a_table_whose_numbers_are_used_up_still_lives(
    client: RestClient, warehouse: FreshWarehouse, last: Callable[[dict[str, Any]], dict[str, Any]], update: dict[str, Any]
) -> None:
    """A registered file may have the greatest id. What needs the next one is refused with 400; the rest works."""
    document = copied(client, warehouse)
    response = register(client, "r", file_of(warehouse, document | last(document)))
    assert 200 == response.status, response.message
    asked = update if "action" in update else snapshot(warehouse, 7, **update)
    refused = client.commit(["a"], "r", asked)
    assert (400, True) == (refused.status, refused.error[1] in ("IllegalArgumentException", "ValidationException", "BadRequestException"))
    assert 200 == client.commit(["a"], "r", set_properties(k="v")).status
    loaded = client.load_table(["a"], "r").json["metadata"]
    assert "v" == loaded["properties"]["k"]


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 900 + b"]" * 900,
        b'"\\u0000"',
        b'{"a\\u0000b": 1}',
        b"NaN",
        b"Infinity",
        b"1e400",
        b'"\\ud800"',
        b'{"\\udfff": 1}',
    ],
)
def test_what_a_body_may_not_hold_a_file_may_not_either(client: RestClient, warehouse: FreshWarehouse, value: bytes) -> None:
    """In an unknown member of both, without a trace of the attempt."""
    body = b'{"requirements": [], "updates": [], "x-unknown": ' + value + b"}"
    client.create_table(["a"], "t")
    assert (400, "BadRequestException") == client.call("POST", table_path(["a"], "t"), body).error
    document = json.dumps(copied(client, warehouse)).encode()
    response = register(client, "r", file_of(warehouse, document[:-1] + b', "x-unknown": ' + value + b"}"))
    assert (400, "BadRequestException") == response.error
    view = json.dumps(client.create_view(["a"], "v").json["metadata"] | {"location": f"{warehouse.base}/v"}).encode()
    response = register(client, "r", file_of(warehouse, view[:-1] + b', "x-unknown": ' + value + b"}"), "register-view")
    assert (400, "BadRequestException") == response.error


@pytest.mark.parametrize(
    "value", [b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809", b'[0, {"a": 1' + b"1" * 60 + b"}]"]
)
def test_numbers_outside_64_bits_are_not_kept(client: RestClient, warehouse: FreshWarehouse, value: bytes) -> None:
    """A reader would convert them to another number. Unknown members of a body are not stored, and no known field accepts them."""
    document = json.dumps(copied(client, warehouse)).encode()
    response = register(client, "r", file_of(warehouse, document[:-1] + b', "x-unknown": ' + value + b"}"))
    assert (400, "BadRequestException") == response.error
    assert "64 bits" in response.message
    response = register(client, "r", file_of(warehouse, document[:-1] + b', "last-updated-ms": ' + value + b"}"))
    assert (400, "BadRequestException") == response.error
    client.create_table(["a"], "t")
    update = b'{"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [' + value + b"]}]}"
    assert (400, "BadRequestException") == client.call("POST", table_path(["a"], "t"), update).error


@pytest.mark.parametrize("value", [b"9223372036854775807", b"-9223372036854775808", b'"99999999999999999999"', b"0.1", b"1e18"])
def test_what_a_body_may_hold_a_file_may_too(client: RestClient, warehouse: FreshWarehouse, value: bytes) -> None:
    """Every integer of 64 bits, floating-point numbers, digits in a text."""
    body = b'{"requirements": [], "updates": [], "x-unknown": ' + value + b"}"
    client.create_table(["a"], "t")
    assert 200 == client.call("POST", table_path(["a"], "t"), body).status
    document = json.dumps(copied(client, warehouse)).encode()
    response = register(client, "r", file_of(warehouse, document[:-1] + b', "x-unknown": ' + value + b"}"))
    assert (200, json.loads(value)) == (response.status, response.json["metadata"]["x-unknown"])


CONTROLS = ["x%1Fy", "x%09", "%00", "x%0Ay", "%7F", "%C2%85"]


@pytest.mark.parametrize("name", CONTROLS)
def test_what_no_name_may_hold_names_nothing(client: RestClient, name: str) -> None:
    """404 for reading, changing, dropping and renaming; 400 for creating."""
    tables, views = f"/namespaces/a/tables/{name}", f"/namespaces/a/views/{name}"
    commit: dict[str, Any] = {"requirements": [], "updates": []}
    plain = {"%1F": "\x1f", "%09": "\t", "%00": "\0", "%0A": "\n", "%7F": "\x7f", "%C2%85": "\x85"}
    decoded = name
    for escape, character in plain.items():
        decoded = decoded.replace(escape, character)
    for path, kind in ((tables, "Table"), (views, "View")):
        expected = (404, f"NoSuch{kind}Exception")
        assert expected == client.call("GET", path).error
        assert 404 == client.call("HEAD", path).status
        assert expected == client.call("DELETE", path).error
        assert expected == client.call("POST", path, commit).error
    if "\0" not in decoded:
        rename = {"source": identifier(["a"], decoded), "destination": identifier(["a"], "free")}
        assert (404, "NoSuchTableException") == client.call("POST", "/tables/rename", rename).error
        assert (404, "NoSuchViewException") == client.call("POST", "/views/rename", rename).error
    create = {"requirements": [{"type": "assert-create"}], "updates": []}
    assert (400, "BadRequestException") == client.call("POST", tables, create).error
    assert 400 == client.create_table(["a"], decoded).status


@pytest.mark.parametrize("name", CONTROLS[1:])
def test_no_namespace_has_a_control_character(client: RestClient, name: str) -> None:
    """Nor does anything in it exist."""
    path = f"/namespaces/{name}"
    expected = (404, "NoSuchNamespaceException")
    assert 404 == client.call("HEAD", path).status
    for method, below, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/properties", {"updates": {"k": "v"}}),
        ("GET", "/tables", None),
        ("GET", "/views", None),
        ("POST", "/tables", {"name": "t", "schema": SCHEMA}),
    ):
        assert expected == client.call(method, path + below, body).error, (method, below)
    assert (404, "NoSuchTableException") == client.call("GET", f"{path}/tables/t").error
    assert (404, "NoSuchTableException") == client.call("DELETE", f"{path}/tables/t").error


def test_a_taken_name_is_refused_before_the_file_is_sought(client: RestClient, warehouse: FreshWarehouse) -> None:
    """Tables and views: 409 although the file does not exist."""
    client.create_table(["a"], "t")
    client.create_view(["a"], "v")
    for kind, name in (("register", "t"), ("register", "v"), ("register-view", "t"), ("register-view", "v")):
        response = register(client, name, f"{warehouse.base}/absent.metadata.json", kind)
        assert (409, "AlreadyExistsException") == response.error, (kind, name)
    assert (404, "NotFoundException") == register(client, "free", f"{warehouse.base}/absent.metadata.json").error
