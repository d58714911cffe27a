"""The tables at an earlier time, folded from rows of the landed events: without Spark."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.events import (
    Event,
    NamespaceCreated,
    NamespaceDropped,
    NamespaceMoved,
    NamespacePropertiesChanged,
    TableCreated,
    TableDropped,
    TableExpired,
    TableUndropped,
    TableUnregistered,
)
from icecore.domain.metadata.create import new_table_metadata
from icecore.pipeline import replay
from icecore.pipeline.event_source import SourceError
from icecore.publishers import event_data
from icecore.publishers.event_data import EventData, NamespaceEvent, NamespaceName, WarehouseName

TABLE, WAREHOUSE, OUTER, INNER, PROJECT = (UUID(int=n) for n in range(1, 6))
METADATA = new_table_metadata(
    table_uuid=str(TABLE),
    location="file:///w/t",
    schema={"type": "struct", "fields": []},
    partition_spec=None,
    write_order=None,
    properties={},
    now_ms=1_800_000_000_000,
)
CREATED = TableCreated(INNER, "t", "t", "local|file:///w/t/", "file:///w/t/metadata/0.json", METADATA, False)
SOFT_DROP = TableDropped(purge_requested=False, expires_at_ms=1_800_000_000_000)


def rows(stream: UUID, *events: Event) -> list[tuple[Any, ...]]:
    """The columns FOLDED of a stream's events."""
    return [
        (str(stream), version, version, str(UUID(int=100 + version)), event.TOPIC, event.encode(), str(PROJECT), str(WAREHOUSE))
        for version, event in enumerate(events, start=1)
    ]


def data_rows(stream: UUID, *events: EventData) -> list[tuple[Any, ...]]:
    """As `rows`, of events that were landed without stored rows: with their data."""
    return [(str(stream), version, version, None, "", None, None, None, event.to_json()) for version, event in enumerate(events, start=1)]


def test_a_namespace_without_stored_rows_is_folded_from_its_data() -> None:
    """As from its states."""
    events = [
        NamespaceCreated(WAREHOUSE, "inner", "inner", "l", {"location": "file:///w/i", "a": "1", "b": "1"}),
        NamespacePropertiesChanged({"b": "2", "c": "3"}, ["a"]),
        NamespaceMoved(OUTER, "renamed", "renamed"),
        NamespaceDropped(),
    ]
    warehouse, name = WarehouseName(id=WAREHOUSE, name="w"), NamespaceName(id=INNER, name=["inner"])
    moved = NamespaceName(id=INNER, name=["outer", "renamed"])
    data = [
        NamespaceEvent(
            namespace=name, warehouse=warehouse, parent_id=WAREHOUSE, properties_set={"location": "file:///w/i", "a": "1", "b": "1"}
        ),
        NamespaceEvent(namespace=name, warehouse=warehouse, properties_set={"b": "2", "c": "3"}, properties_removed=["a"]),
        event_data.NamespaceMoved(namespace=moved, warehouse=warehouse, parent_id=OUTER, previous_name=["inner"]),
        event_data.NamespaceDropped(namespace=moved, warehouse=warehouse),
    ]
    for count in range(1, len(events) + 1):
        expected = [*replay._namespaces(rows(INNER, *events[:count]))]
        assert expected == [*replay._namespaces(data_rows(INNER, *data[:count]))]
        assert 1 == len(expected)


def test_namespaces_published_without_their_parents_are_refused() -> None:
    event = NamespaceEvent(namespace=NamespaceName(id=INNER, name=["i"]), warehouse=WarehouseName(id=WAREHOUSE, name="w"))
    with pytest.raises(SourceError, match="without parent-id: land the log from Postgres"):
        list(replay._namespaces(data_rows(INNER, event)))


def live_tables(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    outer = rows(OUTER, NamespaceCreated(WAREHOUSE, "outer", "outer", "k", {"location": "file:///w/o"}))
    inner = rows(INNER, NamespaceCreated(OUTER, "inner", "inner", "l", {"location": "file:///w/i"}))
    namespaces = dict(replay._namespaces([*outer, *inner]))
    return [*replay._live_tables(rows(TABLE, *events), namespaces)]


@pytest.mark.parametrize("events", [[CREATED], [CREATED, SOFT_DROP, TableUndropped()]], ids=["created", "undropped"])
def test_a_live_table_is_found_by_its_path(events: list[Event]) -> None:
    expected = (str(TABLE), str(WAREHOUSE), ["outer", "inner"], "t", CREATED.metadata_location, len(events))
    assert [expected] == live_tables(events)


@pytest.mark.parametrize(
    "ends",
    [
        [TableDropped(purge_requested=False)],
        [TableDropped(purge_requested=True)],
        [SOFT_DROP],
        [SOFT_DROP, TableExpired()],
        [TableUnregistered()],
    ],
    ids=["dropped", "being purged", "soft-deleted", "expired", "unregistered"],
)
def test_a_table_that_is_not_live_is_not_there(ends: list[Event]) -> None:
    assert [] == live_tables([CREATED, *ends])
