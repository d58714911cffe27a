"""Rows of `events` from CloudEvents. Stored rows are not in CloudEvents, and neither are request ids: these columns are NULL."""

from collections.abc import Callable
from typing import Any

import orjson
from cloudevents.core.base import BaseCloudEvent

from ..publishers.event_data import SCHEMA_PREFIX, TYPE_PREFIX
from .event_source import SourceError
from .landed_tables import EVENTS

READ_SCHEMA = f"{EVENTS.schema}, origin string, origin_offset bigint, problem string"
"""The columns of `events`, and where the event was read: the file, or the partition and offset. problem -- why it is no event that can
be landed; the columns of `events` are NULL then.
"""
_PROBLEM = (None,) * len(EVENTS.columns)
_TOPIC = SCHEMA_PREFIX + TYPE_PREFIX


def read_row(
    decode: Callable[[], BaseCloudEvent], after: int, pipeline_warehouse_id: str, origin: str, offset: int | None
) -> tuple[Any, ...] | None:
    """The row with the columns READ_SCHEMA of the event that `decode` returns; None up to position `after`. decode -- raises ValueError."""
    try:
        event = decode()
        position = int(event.get_attributes()["position"])
        return None if position <= after else (*event_row(event, position, pipeline_warehouse_id), origin, offset, None)
    except SourceError as error:
        problem = str(error)
    except (KeyError, ValueError, TypeError):
        # Messages of these errors may have values of the event.
        problem = "not an event of Icecore"
    return (*_PROBLEM, origin, offset, problem)


def event_row(event: BaseCloudEvent, position: int, pipeline_warehouse_id: str) -> tuple[Any, ...]:
    """In the order of EVENTS.columns. Raises SourceError for an event without data; KeyError, ValueError and TypeError for one that is not
    of Icecore.
    """
    attributes = event.get_attributes()
    data = event.get_data()
    if not isinstance(data, bytes):
        raise SourceError(f"position {position} has no data, because it was larger than the sink's event_bytes_max: land it from Postgres")
    topic = attributes["dataschema"].removeprefix(_TOPIC)
    kind, stream_id = topic.partition(".")[0], attributes["partitionkey"]
    return (
        position,
        attributes.get("replayof", event.get_id()),
        stream_id,
        int(attributes["streamversion"]),
        kind,
        topic.rpartition(".")[0],
        topic,
        event.get_time(),
        attributes["actor"],
        attributes["command"],
        attributes["project"],
        attributes["warehouse"],
        None,
        attributes.get("correlation"),
        attributes.get("causation"),
        attributes.get("traceparent"),
        None,
        attributes["warehouse"] == pipeline_warehouse_id,
        _path(kind, stream_id, orjson.loads(data)),
        data.decode(),
        None,
        None,
    )


def _path(kind: str, stream_id: str, data: dict[str, Any]) -> list[str]:
    """The names of the object as of the event, as EnrichedEvent.path has them."""
    match kind:
        case "table" | "view":
            tabular = data[kind]
            return [tabular["warehouse"]["name"], *tabular["namespace"]["name"], tabular["name"]]
        case "namespace":
            return [data["warehouse"]["name"], *data["namespace"]["name"]]
        case "warehouse":
            return [data["warehouse"]["name"]]
        case "proposal" | "task" | "maintenance":
            return [data["warehouse"]["name"], stream_id]
        case "project":
            return []
    return list(data["name"])
