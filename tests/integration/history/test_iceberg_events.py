"""POST /v1/{prefix}/events, as in the open proposal for Iceberg's REST specification."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pydantic import TypeAdapter
from pyiceberg.table.update import TableUpdate

from icecore.commands.warehouses.create_warehouse import CreateWarehouse, create_warehouse
from icecore.domain.events import Event, decode
from icecore.domain.metadata.updates import apply_updates
from tests.fixtures.catalog import context
from tests.fixtures.command_runs import NAMES, CommandRun, Step
from tests.integration.history.serving import Answered, Served
from tests.integration.history.test_event_pages import create, head

STANDARD = {
    "create-table", "register-table", "drop-table", "update-table", "rename-table",
    "create-view", "drop-view", "update-view", "rename-view",
    "create-namespace", "update-namespace-properties", "drop-namespace",
}  # fmt: skip


async def query(served: Served, warehouse: str = "demo", **body: Any) -> Answered:
    return await served.ask("POST", f"/catalog/v1/{warehouse}/events", {name.replace("_", "-"): value for name, value in body.items()})


async def events(served: Served, **body: Any) -> list[dict[str, Any]]:
    answered = await query(served, **body)
    assert {"events", "continuation-token", "highest-processed-timestamp-ms"} == set(answered.json)
    listed: list[dict[str, Any]] = answered.json["events"]
    return listed


def kinds(listed: list[dict[str, Any]]) -> set[str]:
    return {event["operation"]["operation-type"] for event in listed}


async def test_events_are_those_of_the_log(served: Served, history: CommandRun) -> None:
    """With its order and ids. Every standard operation occurs, and our own with the proposal's prefix for catalogs."""
    listed = await events(served)
    published = (await served.get("/events")).json["events"]
    of_warehouse = [event for event in published if event["warehouse"] == str(history.warehouse.id)]
    assert len(of_warehouse) < len(published)
    assert [event["id"] for event in of_warehouse] == [event["event-id"] for event in listed]
    assert STANDARD < kinds(listed)
    own = kinds(listed) - STANDARD
    assert {"x-icecore-warehouse-created", "x-icecore-table-purged"} <= own
    assert [] == [kind for kind in own if not kind.startswith("x-icecore-")]
    for event in listed:
        assert {"event-id", "request-id", "request-event-count", "timestamp-ms", "actor", "operation"} == set(event)
    assert {"anonymous", "icecore-purge"} <= {event["actor"]["id"] for event in listed}
    requests = Counter(event["request-id"] for event in listed)
    assert [requests[event["request-id"]] for event in listed] == [event["request-event-count"] for event in listed]
    assert 2 in requests.values()


async def test_operations_have_their_members(served: Served, history: CommandRun) -> None:
    """Exactly the members that the proposal's parser expects. Identifiers are as of the event."""
    members: dict[str, set[frozenset[str]]] = {}
    listed = await events(served, operation_types=[*STANDARD, "x-icecore-warehouse-created", "x-icecore-table-purged"])
    for event in listed:
        operation = event["operation"]
        members.setdefault(operation.pop("operation-type"), set()).add(frozenset(operation))
    tabular = frozenset({"identifier", "table-uuid"})
    view = frozenset({"identifier", "view-uuid"})
    renamed = frozenset({"source", "destination"})
    assert {
        "create-table": {tabular | {"updates"}},
        "register-table": {tabular},
        "update-table": {tabular | {"updates"}},
        "drop-table": {tabular | {"purge"}},
        "rename-table": {renamed | {"table-uuid"}},
        "create-view": {view | {"updates"}},
        "update-view": {view | {"updates"}},
        "drop-view": {view},
        "rename-view": {renamed | {"view-uuid"}},
        "create-namespace": {frozenset({"namespace", "properties"})},
        "update-namespace-properties": {frozenset({"namespace", "updated", "removed"})},
        "drop-namespace": {frozenset({"namespace"})},
        "x-icecore-warehouse-created": {frozenset()},
        "x-icecore-table-purged": {tabular},
    } == members
    (rename,) = [event["operation"] for event in await events(served, operation_types=["rename-view"])]
    expected = {"namespace": ["Zürich"], "name": NAMES[0]}, {"namespace": ["Zürich"], "name": NAMES[3]}
    assert expected == (rename["source"], rename["destination"])


async def test_updates_bring_about_what_was_committed(served: Served, run: CommandRun) -> None:
    """PyIceberg parses them. Applied to an empty table, they result in the catalog's table."""
    await run.step(Step("create_namespace"))
    await run.step(Step("create_table", other=1))
    for other in (0, 1, 2, 3, 1, 3, 2, 0, 3):
        await run.step(Step("commit", other=other))
    await run.step(Step("fill"))
    await run.step(Step("empty"))
    listed = await events(served, object_types=["table"])
    updates = [update for event in listed for update in event["operation"]["updates"]]
    reader: TypeAdapter[Any] = TypeAdapter(TableUpdate)
    for update in updates:
        read = orjson.loads(reader.validate_python(update).model_dump_json(by_alias=True))
        assert update["action"] == read["action"]
    document: dict[str, Any] | None = None
    for event in listed:
        document = apply_updates(document, event["operation"]["updates"], now_ms=event["timestamp-ms"], previous_metadata_location=None)
    loaded = (await served.ask("GET", "/catalog/v1/demo/namespaces/a/tables/t")).json["metadata"]
    assert document is not None
    same = ("format-version", "table-uuid", "location", "schemas", "current-schema-id", "partition-specs", "default-spec-id", "sort-orders",
            "default-sort-order-id", "properties", "snapshots", "current-snapshot-id", "refs", "last-sequence-number")  # fmt: skip
    assert {name: loaded[name] for name in same} == {name: document[name] for name in same}
    assert {"remove-snapshots", "set-snapshot-ref", "add-schema", "remove-properties"} < {update["action"] for update in updates}


async def test_tokens_go_on_behind_what_was_read(served: Served, history: CommandRun) -> None:
    """Also at the end of the log, and with any filter. The highest time is that of the last event read."""
    everything = await events(served)
    pages, token = [], None
    while True:
        answered = await query(served, page_size=7, **({} if token is None else {"continuation_token": token}))
        token = answered.json["continuation-token"]
        if not answered.json["events"]:
            break
        pages += answered.json["events"]
        assert pages[-1]["timestamp-ms"] == answered.json["highest-processed-timestamp-ms"]
    assert everything == pages
    assert everything[-1]["timestamp-ms"] == answered.json["highest-processed-timestamp-ms"]
    await create(history, "later")
    (later,) = await events(served, continuation_token=token, operation_types=["create-namespace"])
    assert ["later"] == later["operation"]["namespace"]


async def test_a_time_is_a_way_in(served: Served, run: CommandRun) -> None:
    """It includes the events of that millisecond. A token takes precedence."""
    for number in range(5):
        await create(run, f"n{number}")
        await asyncio.sleep(0.002)
    everything = await events(served)
    since = everything[3]["timestamp-ms"]
    assert [event for event in everything if event["timestamp-ms"] >= since] == await events(served, since_timestamp_ms=since)
    assert everything == await events(served, since_timestamp_ms=0)
    # The time is after the last event, and there is no newer one.
    now_ms = time.time_ns() // 1_000_000
    assert [event for event in everything if event["timestamp-ms"] >= now_ms] == await events(served, since_timestamp_ms=now_ms)
    token = (await query(served, page_size=1)).json["continuation-token"]
    assert everything[1:] == await events(served, continuation_token=token, since_timestamp_ms=since)


async def test_objects_are_chosen_by_path_by_uuid_and_by_type(served: Served, history: CommandRun) -> None:
    """A path matches its object and everything below, by levels and case-insensitively. All filters must match."""
    everything = await events(served)
    below = await events(served, catalog_objects_by_name=[["A", "b"]])
    trees = {f"x-icecore-{kind}-{change}" for kind in ("table", "namespace") for change in ("undropped", "expired")}
    assert {"create-namespace", "create-table", "drop-table", "drop-namespace", "x-icecore-namespace-moved"} | trees == kinds(below)
    assert [] == await events(served, catalog_objects_by_name=[["a", "b", "c"], ["nowhere"]])
    assert below == await events(served, catalog_objects_by_name=[["a", "b"], ["nowhere"]])
    for name in (NAMES[0], NAMES[3]):
        renamed = await events(served, catalog_objects_by_name=[["Zürich", name]], operation_types=["rename-view"])
        assert 1 == len(renamed)
    uuid = next(event["operation"]["table-uuid"] for event in everything if "table-uuid" in event["operation"])
    mine = await events(served, catalog_objects_by_uuid=[uuid.upper(), str(uuid4())])
    assert [event for event in everything if event["operation"].get("table-uuid") == uuid] == mine
    views = await events(served, object_types=["view"])
    own = {"x-icecore-view-protection-changed", "x-icecore-view-undropped", "x-icecore-view-expired"}
    assert {"create-view", "update-view", "rename-view", "drop-view"} | own == kinds(views)
    assert [] == await events(served, object_types=["view"], catalog_objects_by_uuid=[uuid])
    assert {"x-icecore-table-purged"} == kinds(await events(served, operation_types=["x-icecore-table-purged", "x-other"]))


async def test_events_are_of_one_warehouse_and_of_a_past_where_one_is_named(served: Served, history: CommandRun, tmp_path: Any) -> None:
    """`demo@<position>` ends at that position."""
    (tmp_path / "other").mkdir()
    profile = {"type": "local", "directory": str(tmp_path / "other")}
    await create_warehouse(history.catalog.commands, context("createWarehouse"), CreateWarehouse("other", profile))
    assert {"x-icecore-warehouse-created"} == kinds((await query(served, "other")).json["events"])
    everything = await events(served)
    # The others are of projects and of warehouses that were created before.
    async with history.catalog.backends.connection() as connection:
        query_others = (
            "select count(*) from icecore.events where warehouse_id <> (select originator_id from icecore.events where notification_id = 1)"
        )
        ((others,),) = await (await connection.execute(query_others)).fetchall()
    assert await head(served) == len(everything) + others
    assert everything[:5] == (await query(served, "demo@5")).json["events"]
    config = (await served.ask("GET", "/catalog/v1/config?warehouse=demo")).json
    assert [] == [endpoint for endpoint in config["endpoints"] if endpoint.endswith("/events")]


@pytest.mark.parametrize(
    "body",
    [
        {"continuation-token": "nonsense"},
        {"continuation-token": "WyJhIiwiYiJd"},
        {"continuation-token": 7},
        {"page-size": 0},
        {"page-size": "7"},
        {"page-size": True},
        {"since-timestamp-ms": -1},
        {"since-timestamp-ms": 10**18},
        {"operation-types": ["create-tabel"]},
        {"operation-types": "create-table"},
        {"object-types": ["function"]},
        {"catalog-objects-by-name": ["a"]},
        {"catalog-objects-by-name": [[]]},
        {"catalog-objects-by-uuid": [7]},
        {"catalog-objects-by-uuid": ["x"] * 101},
        {"custom-filters": {"warehouse": "demo"}},
    ],
)
async def test_what_cannot_be_meant_is_refused(served: Served, body: dict[str, Any]) -> None:
    """The message names the field."""
    answered = await served.ask("POST", "/v1/demo/events", body)
    assert (400, "BadRequestException") == answered.error
    assert f"'{next(iter(body))}'" in answered.json["error"]["message"]


async def test_no_such_warehouse(served: Served) -> None:
    """404, as in every operation."""
    assert (404, "NoSuchWarehouseException") == (await query(served, "nowhere")).error


async def test_large_events_are_not_read_on_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread, once each. The state of a registration is not read, because only its names are needed."""
    fields = [{"id": n, "name": f"c{n}", "type": "long", "required": False, "doc": "x" * 1_000} for n in range(1, 201)]
    assert 200 == (await served.ask("POST", "/v1/namespaces", {"namespace": ["large"]})).status
    wide = {"name": "wide", "schema": {"type": "struct", "schema-id": 0, "fields": fields}}
    created = await served.ask("POST", "/v1/namespaces/large/tables", wide)
    assert 200 == created.status
    assert 200 == (await served.ask("POST", "/v1/namespaces/large/tables/wide/unregister")).status
    location = created.json["metadata-location"]
    assert 200 == (await served.ask("POST", "/v1/namespaces/large/register", {"name": "wide", "metadata-location": location})).status
    read: list[tuple[str, bool]] = []

    def reading(topic: str, state: bytes) -> Event:
        read.append((topic, threading.current_thread() is threading.main_thread()))
        return decode(topic, state)

    monkeypatch.setattr("icecore.publishers.enricher.decode", reading)
    listed = await events(served, operation_types=["create-table", "register-table"])
    assert ["create-table", "register-table"] == [event["operation"]["operation-type"] for event in listed]
    assert {"namespace": ["large"], "name": "wide"} == listed[1]["operation"]["identifier"]
    assert [("table.created.v1", False)] == read
    read.clear()
    await served.get("/events", types="table.created,table.registered")
    assert [("table.created.v1", False), ("table.registered.v1", False)] == read
