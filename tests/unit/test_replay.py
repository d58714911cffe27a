"""The tables at an earlier time, folded from rows of the landed events: without Spark."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.events import Event, NamespaceCreated, TableCreated, TableDropped, TableExpired, TableUndropped, TableUnregistered
from icecore.domain.metadata.create import new_table_metadata
from icecore.pipeline import replay

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
