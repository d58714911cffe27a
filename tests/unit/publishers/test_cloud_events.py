"""CloudEvents: valid names, stable bytes, both content modes, replays, references, Lakekeeper's dialect."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal
from uuid import UUID

import orjson
import pytest
from cloudevents.core.bindings import http, kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from icecore.domain.project import PROJECT_ID_DEFAULT
from icecore.domain.recorded import RecordedEvent
from icecore.publishers.cloud_events import (
    Replay,
    decode_json,
    decode_kafka,
    encode_http,
    encode_json,
    encode_kafka,
    outgoing,
)
from icecore.publishers.enriched_event import EnrichedEvent
from icecore.publishers.event_data import NamespaceEvent, NamespaceName, TableRemovedEvent, TabularName, WarehouseName

WAREHOUSE = UUID("01900000-0000-7000-8000-000000000001")
TABLE = UUID("01900000-0000-7000-8000-000000000002")
NAMESPACE = UUID("01900000-0000-7000-8000-000000000003")
EVENT = UUID("01900000-0000-7000-8000-000000000004")
COMMAND = UUID("01900000-0000-7000-8000-000000000005")
REPLAY = UUID("01900000-0000-7000-8000-000000000006")
TIME = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)


def recorded(topic: str, *, at: datetime = TIME, traceparent: str | None = None, project_id: UUID = PROJECT_ID_DEFAULT) -> RecordedEvent:
    """A row of the log as Postgres returns it."""
    return RecordedEvent(
        TABLE,
        7,
        topic,
        b"{}",
        3_000_000_000,
        EVENT,
        COMMAND,
        at,
        "anonymous",
        project_id,
        WAREHOUSE,
        "r-1",
        None,
        None,
        traceparent,
        None,
        bytes(32),
    )


def dropped(**envelope: object) -> EnrichedEvent:
    """The table `a.b.é` was dropped."""
    namespace = NamespaceName(id=NAMESPACE, name=["a", "b"])
    table = TabularName(id=TABLE, uuid=TABLE, name="é", namespace=namespace, warehouse=WarehouseName(id=WAREHOUSE, name="demo"))
    data = TableRemovedEvent(table=table, metadata_location="s3://b/m.json", purge_requested=False)
    return EnrichedEvent(recorded("table.dropped.v1", **envelope), ("demo", "a", "b", "é"), data)  # type: ignore[arg-type]


def test_the_attributes_say_what_who_where_and_when() -> None:
    """Every attribute, because consumers depend on each."""
    event = outgoing(dropped(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01"), "icecore")
    assert {
        "specversion": "1.0",
        "id": str(EVENT),
        "source": f"/icecore/{WAREHOUSE}",
        "type": "io.icecore.table.dropped.v1",
        "subject": "a.b.é",
        "time": TIME,
        "datacontenttype": "application/json",
        "dataschema": "urn:icecore:schema:io.icecore.table.dropped.v1",
        "position": "3000000000",
        "streamversion": "7",
        "partitionkey": str(TABLE),
        "warehouse": str(WAREHOUSE),
        "project": str(UUID(int=0)),
        "actor": "anonymous",
        "command": str(COMMAND),
        "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    } == event.cloud_event.get_attributes()


@pytest.mark.parametrize("dialect", ["icecore", "lakekeeper"])
def test_attribute_names_are_legal(dialect: str) -> None:
    """CloudEvents 1.0 allows lower-case letters and digits, and recommends at most 20 of them."""
    attributes = outgoing(dropped(), dialect, Replay(REPLAY)).cloud_event.get_attributes()  # type: ignore[arg-type]
    assert [] == [name for name in attributes if not re.fullmatch(r"[a-z0-9]{1,20}", name)]
    assert [] == [name for name, value in attributes.items() if value in (None, "")]


def test_structured_mode_is_read_back_by_the_package() -> None:
    """The result is a valid CloudEvent for other libraries, including data."""
    message = encode_http(outgoing(dropped(), "icecore"), "structured")
    assert "application/cloudevents+json" == message.headers["content-type"]
    read = http.from_structured(http.HTTPMessage(message.headers, message.body), JSONFormat(), CloudEvent)
    assert (str(EVENT), "a.b.é", TIME) == (read.get_id(), read.get_subject(), read.get_time())
    assert orjson.loads(message.body)["data"] == read.get_data()
    data = orjson.loads(message.body)["data"]
    assert ("é", ["a", "b"], "demo") == (data["table"]["name"], data["table"]["namespace"]["name"], data["table"]["warehouse"]["name"])
    assert data["purge-requested"] is False


def test_binary_mode_keeps_the_data_apart() -> None:
    """NATS and webhooks use the headers of the HTTP binding; Kafka has its own."""
    event = outgoing(dropped(), "icecore")
    over_http, over_kafka = encode_http(event, "binary"), encode_kafka(event, "binary")
    assert over_http.body == over_kafka.body
    assert "table" in orjson.loads(over_http.body)
    assert ("a.b.%C3%A9", "application/json") == (over_http.headers["ce-subject"], over_http.headers["content-type"])
    assert ("a.b.é", "application/json") == (over_kafka.headers["ce_subject"], over_kafka.headers["content-type"])
    lines = b"".join(f"{name}: {value}\r\n".encode() for name, value in over_http.headers.items())
    assert len(lines) + len(over_http.body) == over_http.bytes_count
    raw = kafka.KafkaMessage({name: value.encode() for name, value in over_kafka.headers.items()}, event.key, over_kafka.body)
    assert str(EVENT) == kafka.from_binary(raw, JSONFormat(), CloudEvent).get_id()


def test_bytes_do_not_depend_on_the_time_zone_of_the_session() -> None:
    """A retry by another session reads the same time with another offset."""
    elsewhere = TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert encode_json(outgoing(dropped(), "icecore")) == encode_json(outgoing(dropped(at=elsewhere), "icecore"))


def test_a_replay_has_ids_of_its_own_and_says_so() -> None:
    """A consumer can distinguish it from the first publication, and knows which event it repeats."""
    event = outgoing(dropped(), "icecore", Replay(REPLAY))
    attributes = event.cloud_event.get_attributes()
    assert f"{EVENT}:{REPLAY}" == event.id == attributes["id"]
    assert (str(REPLAY), str(EVENT)) == (attributes["replay"], attributes["replayof"])


def test_an_event_too_large_goes_out_with_its_address() -> None:
    """`dataref` instead of data; the rest is unchanged."""
    whole = outgoing(dropped(), "icecore")
    short = whole.with_reference("https://catalog.example")
    assert f"https://catalog.example/history/v1/events/{EVENT}" == short.cloud_event.get_attributes()["dataref"]
    assert short.cloud_event.get_data() is None
    assert "data" not in orjson.loads(encode_json(short))
    assert whole.id == short.id
    assert f"/history/v1/events/{EVENT}" == whole.with_reference("").cloud_event.get_attributes()["dataref"]


def test_the_address_of_an_event_names_its_project() -> None:
    """A consumer sends no header. The default project is not named, so that the addresses of its events stay what they were."""
    project = UUID(int=9)
    short = outgoing(dropped(project_id=project), "icecore").with_reference("https://catalog.example")
    assert f"https://catalog.example/history/v1/events/{EVENT}?projectId={project}" == short.cloud_event.get_attributes()["dataref"]


def test_lakekeepers_consumers_find_its_types() -> None:
    """The same event with Lakekeeper's name and attributes without hyphens."""
    attributes = outgoing(dropped(), "lakekeeper").cloud_event.get_attributes()
    assert ("dropTable", "table", str(TABLE), str(WAREHOUSE), "a.b", "é") == tuple(
        attributes[name] for name in ("type", "tabulartype", "tabularid", "warehouseid", "namespace", "name")
    )
    assert "urn:icecore:schema:io.icecore.table.dropped.v1" == attributes["dataschema"]


def test_what_lakekeeper_does_not_tell_keeps_its_name() -> None:
    """Its consumers ignore unknown types."""
    data = NamespaceEvent(namespace=NamespaceName(id=NAMESPACE, name=["a"]), warehouse=WarehouseName(id=WAREHOUSE, name="demo"))
    enriched = EnrichedEvent(recorded("namespace.created.v1"), ("demo", "a"), data)
    assert "io.icecore.namespace.created.v1" == outgoing(enriched, "lakekeeper").cloud_event.get_type()


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_a_message_is_decoded_to_what_was_encoded(mode: Literal["structured", "binary"]) -> None:
    """Attributes and the bytes of the data."""
    event = outgoing(dropped(), "lakekeeper", Replay(REPLAY))
    message = encode_kafka(event, mode)
    expected = (event.cloud_event.get_attributes(), event.cloud_event.get_data())
    decoded = [
        decode_kafka({name: value.encode() for name, value in message.headers.items()}, message.body),
        decode_json(encode_json(event)),
    ]
    assert [expected, expected] == [(each.get_attributes(), each.get_data()) for each in decoded]


@pytest.mark.parametrize(
    "line", ["", "[]", "7", '{"position":', '{"secret-7": 1}', '{"specversion": "1.0", "id": "secret-7", "time": "secret-7"}']
)
def test_what_is_no_cloud_event_is_refused_without_its_values(line: str) -> None:
    for decode in (lambda: decode_json(line), lambda: decode_kafka({}, line.encode()), lambda: decode_kafka({"ce_id": b"secret-7"}, b"{}")):
        with pytest.raises(ValueError, match=r"^not a CloudEvent \(\w+\)$"):
            decode()
