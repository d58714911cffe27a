"""The state of all tables at an earlier time, folded from the landed events on executors by the code of the catalog."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from ..domain.events import decode
from ..domain.namespace import NamespaceState
from ..domain.read_models.stream_fold import StreamFold
from ..domain.streams import State
from ..domain.table import TableState
from .event_source import SourceError
from .session import DataFrame, SparkSession

FOLDED = ("stream_id", "version", "position", "event_id", "topic", "state", "project_id", "warehouse_id")
"""The columns of `events` that are folded."""

_STATE = FOLDED.index("state")

TABLES_AT = "table_id string, warehouse_id string, namespace array<string>, name string, metadata_location string, version bigint"
"""The columns of `tables_at`. version -- of the table's stream."""


class StoredRowsMissingError(Exception):
    """The events were landed from a source that has no stored rows; the message says which."""


class Namespace(NamedTuple):
    """A namespace after some events. parent_id -- of the namespace above, or of the warehouse."""

    parent_id: UUID
    name: str
    properties: Mapping[str, str]


def tables_at(spark: SparkSession, events: DataFrame) -> DataFrame:
    """The tables of all warehouses after these events, without soft-deleted ones, with the columns TABLES_AT.

    events -- rows of the landed table `events`: all up to a position, or up to a time. Raises StoredRowsMissingError.

    >>> tables_at(spark, spark.table("icecore.log.events").where("recorded_at <= '2026-01-31 12:00:00'"))  # doctest: +SKIP
    """
    require_stored_rows(events, "tables_at")
    namespaces = spark.sparkContext.broadcast(namespaces_at(events))
    folded = _in_streams(events, "table").mapPartitions(lambda rows: _live_tables(rows, namespaces.value))
    return spark.createDataFrame(folded, TABLES_AT)


def namespaces_at(events: DataFrame) -> dict[UUID, Namespace]:
    """The namespaces after these events by their ids, dropped ones included. A name in a path is found here and not in the events of a
    table: a move of a namespace is no event of what it contains. Events without stored rows are folded from their data.
    """
    return dict(_in_streams(events, "namespace", "data").mapPartitions(_namespaces).collect())


def require_stored_rows(events: DataFrame, what: str) -> None:
    """Raises StoredRowsMissingError unless all events have their stored rows. what -- what needs them, for the message."""
    found = events.where("state is null or hash is null").agg({"position": "min"}).toDF("first").head()
    if found is not None and found["first"] is not None:
        raise StoredRowsMissingError(
            f"{what} needs the stored rows of events, which only Postgres has; those from position {found['first']} on were landed from"
            " Kafka or files. Land the log from Postgres, in tables that are new"
        )


def path_of(namespaces: Mapping[UUID, Namespace], namespace_id: UUID | None) -> list[str]:
    """The levels of a namespace, outermost first."""
    levels: list[str] = []
    while namespace_id is not None and (namespace := namespaces.get(namespace_id)) is not None:
        levels.insert(0, namespace.name)
        namespace_id = namespace.parent_id
    return levels


def folded_row(row: Sequence[Any]) -> tuple[Any, ...]:
    """The values of the columns FOLDED as they are in the log; columns after them are left out."""
    stream, version, position, event, topic, state, project, warehouse, *_ = row
    return UUID(stream), version, position, UUID(event), topic, bytes(state), UUID(project), UUID(warehouse)


def _in_streams(events: DataFrame, kind: str, *more: str) -> Any:
    """The events of one kind as an RDD, in which each stream is together and in order. more -- columns after FOLDED."""
    return events.where(f"kind = '{kind}'").select(*FOLDED, *more).repartition("stream_id").sortWithinPartitions("stream_id", "version").rdd


def _folded(rows: Iterable[Any]) -> Iterator[State]:
    """The last state of each stream."""
    for _, of_stream in groupby(rows, itemgetter(0)):
        fold: StreamFold | None = None
        for row in of_stream:
            stream_id, version, _, event_id, topic, state, project_id, warehouse_id = folded_row(row)
            fold = fold or StreamFold(stream_id, project_id, warehouse_id)
            fold.evolve(version, event_id, decode(topic, state))
        if fold is not None and fold.state is not None:
            yield fold.state


def _namespaces(rows: Iterable[Any]) -> Iterator[tuple[UUID, Namespace]]:
    """rows -- with the columns FOLDED and `data`, which is needed for streams without states."""
    for stream_id, of_stream in groupby(rows, itemgetter(0)):
        events = list(of_stream)
        if any(event[_STATE] is None for event in events):
            yield UUID(stream_id), _namespace_of([orjson.loads(event[len(FOLDED)]) for event in events])
            continue
        for state in _folded(events):
            assert isinstance(state, NamespaceState)
            yield state.id, Namespace(state.parent_id, state.name, dict(state.properties))


def _namespace_of(events: Sequence[Mapping[str, Any]]) -> Namespace:
    """The namespace after the events of its stream, from their data (docs/reference/events.md)."""
    parent_id = next((event["parent-id"] for event in reversed(events) if "parent-id" in event), None)
    if parent_id is None:
        raise SourceError("The events of namespaces were published by a version without parent-id: land the log from Postgres")
    properties: dict[str, str] = {}
    for event in events:
        for key in event.get("properties-removed", ()):
            properties.pop(key, None)
        properties |= event.get("properties-set", {})
    return Namespace(UUID(parent_id), events[-1]["namespace"]["name"][-1], properties)


def _live_tables(rows: Iterable[Any], namespaces: Mapping[UUID, Namespace]) -> Iterator[tuple[Any, ...]]:
    for state in _folded(rows):
        assert isinstance(state, TableState)
        if state.status == "live":
            path = path_of(namespaces, state.namespace_id)
            yield str(state.id), str(state.warehouse_id), path, state.name, state.metadata_location, state.version
