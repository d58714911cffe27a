"""Events of the log as CloudEvents 1.0: attributes, data, and the bytes of both content modes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
from cloudevents.core.base import BaseCloudEvent, EventFactory
from cloudevents.core.bindings import http, kafka
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from ..domain.byte_pieces import trimmed
from ..domain.project import PROJECT_ID_DEFAULT
from .enriched_event import EnrichedEvent
from .event_data import SCHEMA_PREFIX, TYPE_PREFIX, Dialect, Mode
from .lakekeeper_dialect import lakekeeper_attributes

EVENTS_ADDRESS = "/history/v1/events/"
"""The path to which `dataref` refers, followed by the event's id. It returns the whole event."""


class OrjsonFormat(JSONFormat):
    """The package's JSON format, read and written by orjson: it takes a tenth of the time, and equal events have equal bytes.

    The data of our events is JSON as bytes, which is inserted unchanged.
    """

    def write(self, event: BaseCloudEvent) -> bytes:
        data = event.get_data()
        if data is None:
            return orjson.dumps(event.get_attributes(), option=orjson.OPT_UTC_Z)
        assert isinstance(data, bytes)
        return orjson.dumps({**event.get_attributes(), "data": orjson.Fragment(data)}, option=orjson.OPT_UTC_Z)

    def write_data(self, data: dict[str, Any] | str | bytes | None, datacontenttype: str | None) -> bytes:
        assert data is None or isinstance(data, bytes)
        return data or b""

    def read(self, event_factory: EventFactory | None, data: str | bytes) -> BaseCloudEvent:
        attributes = orjson.loads(data)
        if not isinstance(attributes, dict):
            raise ValueError("a CloudEvent is a JSON object")
        if "time" in attributes:
            attributes["time"] = datetime.fromisoformat(attributes["time"])
        content = attributes.pop("data", None)
        return CloudEvent(attributes, None if content is None else orjson.dumps(content))

    def read_data(self, body: bytes, datacontenttype: str | None) -> bytes | None:
        return body or None


_FORMAT = OrjsonFormat()
_IDS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that an operator requested. Its events have ids of their own, and attributes with the event that they repeat."""

    id: UUID

    def attributes(self, event_id: UUID) -> dict[str, str]:
        return {"id": f"{event_id}:{self.id}", "replay": str(self.id), "replayof": str(event_id)}


@dataclass(slots=True)
class OutgoingEvent:
    """An event to be published to a sink.

    id -- the CloudEvent's id, the same at every retry. key -- the stream's id: events with the same key stay in order.
    """

    position: int
    event_id: UUID
    id: str
    key: str
    topic: str
    warehouse_id: str
    cloud_event: CloudEvent

    def with_reference(self, base_url: str) -> "OutgoingEvent":
        """The same event with `dataref`, the URL of its data, instead of the data."""
        attributes = self.cloud_event.get_attributes()
        # A request without a project is in the default one.
        project = "" if attributes["project"] == str(PROJECT_ID_DEFAULT) else f"?projectId={attributes['project']}"
        attributes = {**attributes, "dataref": f"{base_url.rstrip('/')}{EVENTS_ADDRESS}{self.event_id}{project}"}
        return replace(self, cloud_event=CloudEvent(attributes))


@dataclass(slots=True)
class EncodedMessage:
    """A message: headers in the form of its transport's binding, and the body."""

    headers: dict[str, str]
    body: bytes

    @property
    def bytes_count(self) -> int:
        """The size of headers and body, roughly as transports count them."""
        return len(self.body) + sum(len(name) + len(value.encode()) + 4 for name, value in self.headers.items())


def outgoing(enriched: EnrichedEvent, dialect: Dialect, replay: Replay | None = None) -> OutgoingEvent:
    """The CloudEvent of an enriched event. The same event always results in the same bytes."""
    event = enriched.event
    stream_id, warehouse_id = _id_text(event.stream_id), _id_text(event.warehouse_id)
    event_type = TYPE_PREFIX + event.topic
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": str(event.event_id),
        "source": "/icecore/" + warehouse_id,
        "type": event_type,
        "subject": enriched.subject,
        "time": event.recorded_at.astimezone(UTC),
        "datacontenttype": "application/json",
        "dataschema": SCHEMA_PREFIX + event_type,
        # Decimal text: an Integer attribute has 32 bits, a position has 63.
        "position": str(event.position),
        "streamversion": str(event.version),
        "partitionkey": stream_id,
        "warehouse": warehouse_id,
        "project": _id_text(event.project_id),
        "actor": event.actor,
        "command": str(event.command_id),
    }
    if event.correlation_id:
        attributes["correlation"] = event.correlation_id
    if event.causation_id is not None:
        attributes["causation"] = str(event.causation_id)
    if event.traceparent:
        attributes["traceparent"] = event.traceparent
    if dialect == "lakekeeper":
        attributes |= lakekeeper_attributes(event.topic, enriched)
    if replay is not None:
        attributes |= replay.attributes(event.event_id)
    return OutgoingEvent(
        event.position,
        event.event_id,
        attributes["id"],
        stream_id,
        event.topic,
        warehouse_id,
        CloudEvent(attributes, enriched.data.to_json()),
    )


@lru_cache(_IDS_MAX)
def _id_text(value: UUID) -> str:
    """Cached, because successive events often have the same ids."""
    return str(value)


def encode_http(event: OutgoingEvent, mode: Mode) -> EncodedMessage:
    """Encodes by the HTTP binding, whose headers NATS shares: `ce-…` in binary mode."""
    message = http.to_binary(event.cloud_event, _FORMAT) if mode == "binary" else http.to_structured(event.cloud_event, _FORMAT)
    return EncodedMessage(message.headers, message.body)


def encode_kafka(event: OutgoingEvent, mode: Mode) -> EncodedMessage:
    """Encodes by the Kafka binding: `ce_…` in binary mode."""
    message = kafka.to_binary(event.cloud_event, _FORMAT) if mode == "binary" else kafka.to_structured(event.cloud_event, _FORMAT)
    return EncodedMessage({name: value.decode() for name, value in message.headers.items()}, message.value)


def decode_kafka(headers: Mapping[str, bytes], body: bytes) -> BaseCloudEvent:
    """The CloudEvent of a message in either mode, with its data as JSON. Raises ValueError for a message that is none."""
    return _decoded(lambda: kafka.from_kafka(kafka.KafkaMessage(dict(headers), None, body), _FORMAT, CloudEvent))


def decode_json(line: str | bytes) -> BaseCloudEvent:
    """The CloudEvent of a JSON object, with its data as JSON. Raises ValueError for one that is none."""
    return _decoded(lambda: _FORMAT.read(CloudEvent, line))


def _decoded(read: Callable[[], BaseCloudEvent]) -> BaseCloudEvent:
    try:
        return read()
    except (ValueError, TypeError, AttributeError, CloudEventValidationError) as error:
        # The message of the package may have values of the event.
        raise ValueError(f"not a CloudEvent ({type(error).__name__})") from None


def encode_json(event: OutgoingEvent) -> bytes:
    """The event as one JSON object, as in structured mode, without spare memory, as it is kept until a client has received it."""
    return trimmed(_FORMAT.write(event.cloud_event))
