"""Rows of the landed table `events` from CloudEvents, without Spark."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

import orjson
import pytest

from icecore.pipeline.cloud_event_rows import read_row
from icecore.pipeline.landed_tables import EVENTS
from icecore.pipeline.log_source import LogSource
from icecore.publishers import event_data
from icecore.publishers.cloud_events import Replay, decode_json, encode_json, outgoing
from icecore.publishers.enriched_event import EnrichedEvent
from icecore.publishers.event_data import Dialect
from tests.unit.publishers.test_cloud_events import NAMESPACE, REPLAY, TABLE, WAREHOUSE, dropped, recorded

NOT_THERE = ("state", "hash", "request_id", "context")
_WAREHOUSE = event_data.WarehouseName(id=WAREHOUSE, name="demo")
_NAMESPACE = event_data.NamespaceName(id=NAMESPACE, name=["a", "b"])


def row(line: str | bytes, after: int = 0, own: UUID = TABLE) -> Mapping[str, Any] | None:
    """What is read of a line, by the names of columns."""
    found = read_row(partial(decode_json, line), after, str(own), "a.ndjson", 7)
    return None if found is None else dict(zip((*EVENTS.columns, "origin", "origin_offset", "problem"), found, strict=True))


@pytest.mark.parametrize("own", [WAREHOUSE, TABLE])
@pytest.mark.parametrize("dialect", ["icecore", "lakekeeper"])
@pytest.mark.parametrize("replay", [None, Replay(REPLAY)])
def test_a_row_is_that_of_the_log_without_what_cloud_events_leave_out(own: UUID, dialect: Dialect, replay: Replay | None) -> None:
    event = dropped(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    stored = dict(zip(EVENTS.columns, LogSource("", own)._row(event), strict=True))
    expected = stored | dict.fromkeys(NOT_THERE) | {"origin": "a.ndjson", "origin_offset": 7, "problem": None}
    assert expected == row(encode_json(outgoing(event, dialect, replay)), own=own)


@pytest.mark.parametrize(
    ("topic", "data", "path"),
    [
        ("project.created.v1", event_data.ProjectEvent(project=event_data.ProjectName(id=TABLE, name="p")), ()),
        ("warehouse.activated.v1", event_data.WarehouseEvent(warehouse=_WAREHOUSE), ("demo",)),
        ("namespace.created.v1", event_data.NamespaceEvent(namespace=_NAMESPACE, warehouse=_WAREHOUSE), ("demo", "a", "b")),
        *(
            (topic, event_data.WarehouseEvent(warehouse=_WAREHOUSE), ("demo", str(TABLE)))
            for topic in ("maintenance.planned.v1", "task.attempt-failed.v1", "proposal.opened.v1")
        ),
    ],
)
def test_the_path_is_found_in_the_data(topic: str, data: event_data.EventData, path: tuple[str, ...]) -> None:
    found = row(encode_json(outgoing(EnrichedEvent(recorded(topic), path, data), "icecore")))
    assert found is not None
    assert [*path] == found["path"]


def test_an_event_that_is_landed_is_left_out_whatever_it_lacks() -> None:
    event = outgoing(dropped(), "icecore").with_reference("http://a.example")
    assert row(encode_json(event), after=3_000_000_000) is None


def test_an_event_without_its_data_is_a_problem_with_its_position() -> None:
    found = row(encode_json(outgoing(dropped(), "icecore").with_reference("http://a.example")))
    assert found is not None
    expected = "position 3000000000 has no data, because it was larger than the sink's event_bytes_max: land it from Postgres"
    assert (expected, None, "a.ndjson") == (found["problem"], found["position"], found["origin"])


@pytest.mark.parametrize("member", ["position", "dataschema", "partitionkey", "streamversion", "actor", "command", "project", "warehouse"])
def test_an_event_of_another_system_is_a_problem(member: str) -> None:
    event = orjson.loads(encode_json(outgoing(dropped(), "icecore")))
    found = row(orjson.dumps({name: value for name, value in event.items() if name != member}))
    assert found is not None
    assert "not an event of Icecore" == found["problem"]
