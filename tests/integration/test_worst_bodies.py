"""The most expensive permitted bodies do not delay other clients."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.rest_client import SCHEMA, RestClient, namespace_path, table_path, view_version
from tests.fixtures.shared_server import FreshWarehouse, SharedCatalog

WAITED_SECONDS_MAX = 0.5
WAITED_SHARE_MAX = 0.3
"""A share of the large request's time, which depends on the machine. Work on the event loop would block for most of it."""


def columns(count: int, first_id: int = 1) -> list[dict[str, Any]]:
    return [{"id": first_id + number, "name": f"c{number}", "type": "int", "required": False} for number in range(count)]


def add_schema(number: int) -> dict[str, Any]:
    fields = [*SCHEMA["fields"], *({**column, "name": f"c{number}_{column['id']}"} for column in columns(24, 2))]
    return {"action": "add-schema", "schema": {"type": "struct", "fields": fields}}


def snapshot(number: int, base: str) -> dict[str, Any]:
    summary = {"operation": "append", **{f"key-{each}": "value" for each in range(9)}}
    sent = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": 1_700_000_000_000 + number}
    return {"action": "add-snapshot", "snapshot": {**sent, "manifest-list": f"{base}/snap-{number}.avro", "summary": summary}}


def wide_table(_: RestClient, __: str) -> tuple[str, Any]:
    return f"{namespace_path(['a'])}/tables", {"name": "wide", "schema": {"type": "struct", "fields": columns(40_000)}}


def wide_view(_: RestClient, __: str) -> tuple[str, Any]:
    schema = {"type": "struct", "fields": columns(40_000)}
    return f"{namespace_path(['a'])}/views", {"name": "wide_view", "schema": schema, "view-version": view_version("x"), "properties": {}}


def many_properties(_: RestClient, __: str) -> tuple[str, Any]:
    return "/namespaces", {"namespace": ["p"], "properties": long_names(10_000)}


def many_properties_of_a_table(_: RestClient, __: str) -> tuple[str, Any]:
    return f"{namespace_path(['a'])}/tables", {"name": "p", "schema": SCHEMA, "properties": long_names(10_000)}


def long_names(count: int) -> dict[str, str]:
    return {f"{number:05}" + "aB-sastokenx" * 80: "v" for number in range(count)}


def many_schemas(_: RestClient, __: str) -> tuple[str, Any]:
    return table_path(["a"], "t"), {"requirements": [], "updates": [add_schema(number) for number in range(600)]}


def many_snapshots(_: RestClient, base: str) -> tuple[str, Any]:
    return table_path(["a"], "t"), {"requirements": [], "updates": [snapshot(number, base) for number in range(1, 8_001)]}


def a_transaction(_: RestClient, base: str) -> tuple[str, Any]:
    change = {"identifier": {"namespace": ["a"], "name": "t"}, "requirements": []}
    return "/transactions/commit", {"table-changes": [{**change, "updates": [snapshot(number, base) for number in range(1, 8_001)]}]}


def a_staged_create(client: RestClient, _: str) -> tuple[str, Any]:
    location = client.create_table(["a"], "staged", **{"stage-create": True}).json["metadata"]["location"]
    updates = [
        {"action": "add-schema", "schema": {"type": "struct", "fields": columns(40_000)}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]
    return table_path(["a"], "staged"), {"requirements": [{"type": "assert-create"}], "updates": updates}


@pytest.mark.parametrize(
    "worst",
    [wide_table, wide_view, many_properties, many_properties_of_a_table, many_schemas, many_snapshots, a_transaction, a_staged_create],
)
def test_others_are_answered_meanwhile(
    shared_catalog: SharedCatalog, warehouse: FreshWarehouse, client: RestClient, worst: Callable[[RestClient, str], tuple[str, Any]]
) -> None:
    """Another connection requests the configuration repeatedly, and each response is fast."""
    client.create_table(["a"], "t")
    base = client.load_table(["a"], "t").json["metadata"]["location"]
    path, body = worst(client, base)
    sent = json.dumps(body).encode()
    other, ended, waits = shared_catalog.client(warehouse), threading.Event(), list[float]()

    def ask() -> None:
        # Not `/health`, which also checks the log's connections.
        while not ended.is_set():
            began = time.monotonic()
            assert 200 == other.call_root("GET", f"/config?warehouse={warehouse.name}").status
            waits.append(time.monotonic() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.monotonic()
    try:
        response = client.call("POST", path, sent)
    finally:
        seconds = time.monotonic() - began
        ended.set()
        asking.join()
        other.close()
    assert response.status in (200, 204), response.message
    assert max(WAITED_SECONDS_MAX, WAITED_SHARE_MAX * seconds) >= max(waits), f"{len(sent)} bytes: {max(waits):.2f} of {seconds:.2f} s"
