"""Events in the shape of the events endpoint that is proposed for the Iceberg REST specification (apache/iceberg#12584).

The proposal is open: its shapes may change, and these with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from database.connections import Connection
from database.named_sql import named_sql
from domain import events as facts
from domain.byte_pieces import exact
from domain.documents import TABLE_KINDS, Delta, Json, part_from_body
from domain.errors import BadRequest
from domain.events import Event
from domain.identifiers import name_key
from domain.recorded import RecordedEvent
from publishers import event_data as data
from publishers.describe import Describer, Description
from publishers.iceberg_updates import (
    REMOVALS_NAMED,
    part_value,
    updates_of_new_table,
    updates_of_new_view,
    updates_of_table,
    updates_of_view,
)

_SQL = named_sql("publishers", "iceberg_events.sql")

OBJECT_TYPES = ("namespace", "table", "view")
OWN_PREFIX = "x-icecore-"
"""Begins the operation types that are not the proposal's: what follows is Icecore's type, `x-icecore-table-purged`."""

_OPERATION_TYPES = {
    "table.created": "create-table",
    "table.registered": "register-table",
    "table.overwritten": "register-table",
    "table.committed": "update-table",
    "table.renamed": "rename-table",
    "table.dropped": "drop-table",
    "table.unregistered": "drop-table",
    "view.created": "create-view",
    "view.registered": "create-view",
    "view.committed": "update-view",
    "view.renamed": "rename-view",
    "view.dropped": "drop-view",
    "namespace.created": "create-namespace",
    "namespace.properties-changed": "update-namespace-properties",
    "namespace.dropped": "drop-namespace",
}
# A registration is described by its names alone: its state has all of a table's metadata.
_WITHOUT_CHANGE = frozenset({"table.registered", "table.overwritten"})
_KIND_NUMBERS = {kind: number for number, kind in enumerate(TABLE_KINDS, start=1)}


@dataclass(frozen=True, slots=True)
class IcebergEvent:
    """One event as it is sent."""

    position: int
    operation_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class IcebergFilter:
    """What a request asks for; empty members let everything through, and all that are not empty must match.

    names -- paths below the warehouse, as they are matched: each stands for the object it names and for all below it, level by level.
    """

    operation_types: frozenset[str]
    names: tuple[tuple[str, ...], ...]
    uuids: frozenset[str]
    object_types: frozenset[str]
    exact_names: bool

    @classmethod
    def of(
        cls,
        operation_types: Sequence[str],
        names: Sequence[Sequence[str]],
        uuids: Sequence[str],
        object_types: Sequence[str],
        *,
        exact_names: bool,
    ) -> "IcebergFilter":
        """Raises BadRequest for types that the proposal does not have."""
        known = set(_OPERATION_TYPES.values())
        for given in operation_types:
            if given not in known and not given.startswith("x-"):
                raise BadRequest(f"Invalid field 'operation-types': there is no {given[:100]!r}; there are {', '.join(sorted(known))}")
        for given in object_types:
            if given not in OBJECT_TYPES:
                raise BadRequest(f"Invalid field 'object-types': there is no {given[:100]!r}; there are {', '.join(OBJECT_TYPES)}")
        keys = tuple(tuple(name_key(level, exact=exact_names) for level in path) for path in names)
        uuids_spelled = frozenset(uuid.lower() for uuid in uuids)
        return cls(frozenset(operation_types), keys, uuids_spelled, frozenset(object_types), exact_names)

    def may_match(self, event: RecordedEvent) -> bool:
        """What can be told before the event's names are read."""
        if self.operation_types and operation_type(event.topic) not in self.operation_types:
            return False
        noun = event.topic.partition(".")[0]
        return not self.object_types or noun in self.object_types

    def matches(self, description: Description) -> bool:
        """For an event that may match."""
        if self.uuids and _uuid(description.data) not in self.uuids:
            return False
        if not self.names:
            return True
        paths = [tuple(name_key(level, exact=self.exact_names) for level in path) for path in _paths(description)]
        return any(path[: len(name)] == name for path in paths for name in self.names)


class IcebergEvents:
    """Describes batches that follow one another in the order of the log; one per run through it."""

    def __init__(self, chosen: IcebergFilter) -> None:
        self._chosen = chosen
        self._describer = Describer(names_only=_WITHOUT_CHANGE)

    async def describe(
        self, connection: Connection, events: Sequence[RecordedEvent], wanted: Sequence[RecordedEvent]
    ) -> list[IcebergEvent]:
        """Those `wanted` of `events` that the filter lets through, in their order."""
        asked = [event for event in wanted if self._chosen.may_match(event)]
        described = await self._describer.describe_facts(connection, events, asked)
        told = [(each, fact) for each, fact in described if self._chosen.matches(each)]
        counts = await _event_counts(connection, [each.event for each, _ in told])
        removed = await _removed_parts(connection, told)
        return [_event(each, fact, counts[each.event.command_id], removed) for each, fact in told]


def operation_type(topic: str) -> str:
    """The proposal's, or one of our own."""
    bare = topic.rpartition(".")[0]
    return _OPERATION_TYPES.get(bare) or OWN_PREFIX + bare.replace(".", "-")


Removed = Mapping[tuple[UUID, str, int], Json]


def _event(description: Description, fact: Event | None, count: int, removed: Removed) -> IcebergEvent:
    event = description.event
    kind = operation_type(event.topic)
    body = {
        "event-id": str(event.event_id),
        "request-id": event.request_id,
        "request-event-count": count,
        "timestamp-ms": int(event.recorded_at.timestamp() * 1000),
        "actor": {"id": event.actor},
        "operation": {"operation-type": kind, **_operation(description, fact, removed)},
    }
    return IcebergEvent(event.position, kind, exact(orjson.dumps(body)))


def _operation(description: Description, fact: Event | None, removed: Removed) -> Json:
    """The members of an operation, beside its type."""
    told = description.data
    match told:
        case data.TableRenamed(table=name) | data.ViewRenamed(view=name):
            members: Json = {"source": _identifier(told.previous), "destination": _identifier(name)}
        case data.NamespaceEvent():
            members = {"namespace": told.namespace.name}
        case _:
            named = _tabular(told)
            members = {} if named is None else {"identifier": _identifier(named)}
    uuid = _uuid(told)
    if uuid is not None:
        members["table-uuid" if _noun(description) == "table" else "view-uuid"] = uuid
    return members | _change(description.event, fact, removed)


def _change(event: RecordedEvent, fact: Event | None, removed: Removed) -> Json:
    match fact:
        case facts.TableCreated():
            return {"updates": updates_of_new_table(fact.metadata)}
        case facts.TableCommitted():
            mine = {(kind, ordinal): value for (table, kind, ordinal), value in removed.items() if table == event.stream_id}
            return {"updates": updates_of_table(Delta.from_json(fact.delta), mine)}
        case facts.TableDropped():
            return {"purge": fact.purge_requested and fact.gc_enabled is not False}
        case facts.TableUnregistered():
            return {"purge": False}
        case facts.ViewCreated() | facts.ViewRegistered():
            return {"updates": updates_of_new_view(fact.metadata)}
        case facts.ViewCommitted():
            return {"updates": updates_of_view(Delta.from_json(fact.delta))}
        case facts.NamespaceCreated():
            return {"properties": fact.properties}
        case facts.NamespacePropertiesChanged():
            return {"updated": list(fact.updates), "removed": fact.removals}
    return {}


def _noun(description: Description) -> str:
    return description.event.topic.partition(".")[0]


def _tabular(told: data.Told) -> data.TabularName | None:
    found: Any = getattr(told, "table", None) or getattr(told, "view", None)
    return found if isinstance(found, data.TabularName) else None


def _uuid(told: data.Told) -> str | None:
    named = _tabular(told)
    return None if named is None else str(named.uuid)


def _identifier(name: data.TabularName | data.PreviousName) -> Json:
    return {"namespace": name.namespace.name, "name": name.name}


def _paths(description: Description) -> list[tuple[str, ...]]:
    """What the thing was called below its warehouse, and before, where the event renamed it."""
    paths = [description.path[1:]]
    if isinstance(description.data, data.TableRenamed | data.ViewRenamed):
        previous = description.data.previous
        paths.append((*previous.namespace.name, previous.name))
    return paths


async def _event_counts(connection: Connection, events: Sequence[RecordedEvent]) -> dict[UUID, int]:
    """How many events the command of each has."""
    ids = list({event.command_id for event in events})
    cursor = await connection.execute(_SQL["event_counts"], {"ids": ids}, binary=True)
    return dict(await cursor.fetchall())


async def _removed_parts(connection: Connection, told: Sequence[tuple[Description, Event | None]]) -> dict[tuple[UUID, str, int], Json]:
    """What commits removed; an event holds its place only."""
    wanted = [
        (each.event.stream_id, kind, ordinal)
        for each, fact in told
        if isinstance(fact, facts.TableCommitted)
        for kind, change in fact.delta["parts"].items()
        if kind in REMOVALS_NAMED
        for ordinal in change["removed"]
    ]
    if not wanted:
        return {}
    parameters = {
        "ids": [table_id for table_id, _, _ in wanted],
        "kinds": [_KIND_NUMBERS[kind] for _, kind, _ in wanted],
        "ordinals": [ordinal for _, _, ordinal in wanted],
        "snapshots": _KIND_NUMBERS["snapshots"],
    }
    cursor = await connection.execute(_SQL["parts"], parameters, binary=True)
    found: dict[tuple[UUID, str, int], Json] = {}
    for table_id, number, ordinal, snapshot_id, body in await cursor.fetchall():
        kind = TABLE_KINDS[number - 1]
        value = {"snapshot-id": snapshot_id} if body is None else part_value(part_from_body(kind, ordinal, body))
        found[table_id, kind, ordinal] = value
    return found
