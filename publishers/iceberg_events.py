"""Events as in the events endpoint that is proposed for the Iceberg REST specification (apache/iceberg#12584).

The proposal is open and can change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from ..database.connections import Connection
from ..domain import events as domain_events
from ..domain.byte_pieces import trimmed
from ..domain.documents import Delta, Json, part_from_body
from ..domain.errors import BadRequest
from ..domain.events import Event
from ..domain.identifiers import name_key
from ..domain.recorded import RecordedEvent
from ..log.commands import event_counts
from ..projections.versions import read_removed_parts
from . import event_data as data
from .enriched_event import EnrichedBatch, EnrichedEvent
from .enricher import EventEnricher
from .iceberg_updates import (
    REMOVALS_NAMED,
    part_value,
    updates_of_new_table,
    updates_of_new_view,
    updates_of_table,
    updates_of_view,
)
from .references import Path, PathCache

OBJECT_TYPES = ("namespace", "table", "view")
OWN_PREFIX = "x-icecore-"
"""The prefix of operation types that are not in the proposal, followed by Icecore's type: `x-icecore-table-purged`."""

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
# A registration has names only, because its state contains all of a table's metadata.
_WITHOUT_CHANGE = frozenset({"table.registered", "table.overwritten"})


@dataclass(frozen=True, slots=True)
class IcebergEvent:
    """One event as it is sent."""

    position: int
    operation_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class IcebergFilter:
    """The filter of a request. Empty members match everything; all others must match.

    names -- paths of name keys below the warehouse; each matches its object and everything below it.
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
        """Raises BadRequest for types that are not in the proposal."""
        known = set(_OPERATION_TYPES.values())
        for given in operation_types:
            if given not in known and not given.startswith("x-"):
                raise BadRequest(
                    f"Invalid field 'operation-types': unknown type {given[:100]!r}; known types are {', '.join(sorted(known))}"
                )
        for given in object_types:
            if given not in OBJECT_TYPES:
                raise BadRequest(f"Invalid field 'object-types': unknown type {given[:100]!r}; known types are {', '.join(OBJECT_TYPES)}")
        keys = tuple(tuple(name_key(level, exact=exact_names) for level in path) for path in names)
        uuids_spelled = frozenset(uuid.lower() for uuid in uuids)
        return cls(frozenset(operation_types), keys, uuids_spelled, frozenset(object_types), exact_names)

    def may_match(self, event: RecordedEvent) -> bool:
        """Whether the event may match, before its names are read."""
        if self.operation_types and operation_type(event.topic) not in self.operation_types:
            return False
        kind = event.topic.partition(".")[0]
        return not self.object_types or kind in self.object_types

    def matches_path(self, event: RecordedEvent, path: Path | None) -> bool:
        """Whether the event may match before it is enriched, by the path to its namespace or warehouse."""
        if not self.names or path is None or event.topic.partition(".")[2].startswith(("renamed.", "moved.")):
            return True
        levels = tuple(name_key(level, exact=True) for level in path.names[1:]) if self.exact_names else path.keys[1:]
        return any(levels[: len(name)] == name[: len(levels)] for name in self.names)

    def matches(self, enriched: EnrichedEvent) -> bool:
        """Whether an event that may match does match."""
        if self.uuids and _uuid(enriched.data) not in self.uuids:
            return False
        if not self.names:
            return True
        paths = [tuple(name_key(level, exact=self.exact_names) for level in path) for path in _paths(enriched)]
        return any(path[: len(name)] == name for path in paths for name in self.names)


class IcebergEvents:
    """Renders events in the form of the proposal."""

    def __init__(self, iceberg_filter: IcebergFilter, path_cache: PathCache | None = None) -> None:
        self._iceberg_filter = iceberg_filter
        self._enricher = EventEnricher(names_only=_WITHOUT_CHANGE, current_snapshots=False, path_cache=path_cache)

    async def enrich(
        self, connection: Connection, wanted: Sequence[RecordedEvent], *, bytes_max: int | None
    ) -> EnrichedBatch[IcebergEvent]:
        """The `wanted` events that match the filter, in order.

        bytes_max -- limit on the data besides their states, as in `EventEnricher.enrich`, and on the parts that they removed.
        """
        numbers = [number for number, event in enumerate(wanted) if self._iceberg_filter.may_match(event)]
        possible = [wanted[number] for number in numbers]
        enriched = await self._enricher.enrich_decoded(
            connection, possible, is_chosen=self._iceberg_filter.matches_path, bytes_max=bytes_max
        )
        matching = [(each, decoded) for each, decoded in enriched.events if self._iceberg_filter.matches(each)]
        removed = await _removed_parts(connection, matching, bytes_max)
        done = enriched.count if removed.count == len(matching) else possible.index(matching[removed.count][0].event)
        matching = matching[: removed.count]
        counts = await event_counts(connection, {each.event.command_id for each, _ in matching})
        events = [_event(each, decoded, counts[each.event.command_id], removed.parts) for each, decoded in matching]
        count = len(wanted) if done == len(possible) else numbers[done]
        return EnrichedBatch(events, count, enriched.bytes_read + removed.bytes_read)


def operation_type(topic: str) -> str:
    """The proposal's operation type, or one with our prefix."""
    bare = topic.rpartition(".")[0]
    return _OPERATION_TYPES.get(bare) or OWN_PREFIX + bare.replace(".", "-")


Removed = Mapping[tuple[UUID, str, int], Json]


def _event(enriched: EnrichedEvent, decoded: Event | None, count: int, removed: Removed) -> IcebergEvent:
    event = enriched.event
    kind = operation_type(event.topic)
    body = {
        "event-id": str(event.event_id),
        "request-id": event.request_id,
        "request-event-count": count,
        "timestamp-ms": int(event.recorded_at.timestamp() * 1000),
        "actor": {"id": event.actor},
        "operation": {"operation-type": kind, **_operation(enriched, decoded, removed)},
    }
    return IcebergEvent(event.position, kind, trimmed(orjson.dumps(body)))


def _operation(enriched: EnrichedEvent, decoded: Event | None, removed: Removed) -> Json:
    """The members of an operation besides its type."""
    event_data = enriched.data
    match event_data:
        case data.TableRenamed(table=name) | data.ViewRenamed(view=name):
            members: Json = {"source": _identifier(event_data.previous), "destination": _identifier(name)}
        case data.NamespaceMoved():
            members = {"source": event_data.previous_name, "destination": event_data.namespace.name}
        case data.NamespaceEvent() | data.NamespaceProtectionChanged():
            members = {"namespace": event_data.namespace.name}
        case _:
            named = _tabular(event_data)
            members = {} if named is None else {"identifier": _identifier(named)}
    uuid = _uuid(event_data)
    if uuid is not None:
        members["table-uuid" if _kind(enriched) == "table" else "view-uuid"] = uuid
    return members | _change(enriched.event, decoded, removed)


def _change(event: RecordedEvent, decoded: Event | None, removed: Removed) -> Json:
    match decoded:
        case domain_events.TableCreated():
            return {"updates": updates_of_new_table(decoded.metadata)}
        case domain_events.TableCommitted():
            mine = {(kind, ordinal): value for (table, kind, ordinal), value in removed.items() if table == event.stream_id}
            return {"updates": updates_of_table(Delta.from_json(decoded.delta), mine)}
        case domain_events.TableDropped():
            return {"purge": decoded.purge_requested and decoded.gc_enabled is not False}
        case domain_events.TableUnregistered():
            return {"purge": False}
        case domain_events.ViewCreated() | domain_events.ViewRegistered():
            return {"updates": updates_of_new_view(decoded.metadata)}
        case domain_events.ViewCommitted():
            return {"updates": updates_of_view(Delta.from_json(decoded.delta))}
        case domain_events.NamespaceCreated():
            return {"properties": decoded.properties}
        case domain_events.NamespacePropertiesChanged():
            return {"updated": list(decoded.updates), "removed": decoded.removals}
    return {}


def _kind(enriched: EnrichedEvent) -> str:
    return enriched.event.topic.partition(".")[0]


def _tabular(event_data: data.EventData) -> data.TabularName | None:
    found: Any = getattr(event_data, "table", None) or getattr(event_data, "view", None)
    return found if isinstance(found, data.TabularName) else None


def _uuid(event_data: data.EventData) -> str | None:
    named = _tabular(event_data)
    return None if named is None else str(named.uuid)


def _identifier(name: data.TabularName | data.PreviousName) -> Json:
    return {"namespace": name.namespace.name, "name": name.name}


def _paths(enriched: EnrichedEvent) -> list[tuple[str, ...]]:
    """The path of the object below its warehouse, and its former path if the event renamed or moved it."""
    paths = [enriched.path[1:]]
    if isinstance(enriched.data, data.TableRenamed | data.ViewRenamed):
        previous = enriched.data.previous
        paths.append((*previous.namespace.name, previous.name))
    if isinstance(enriched.data, data.NamespaceMoved):
        paths.append(tuple(enriched.data.previous_name))
    return paths


@dataclass(frozen=True, slots=True)
class _RemovedParts:
    """The parts that the first `count` events removed, and their size in bytes."""

    parts: Removed
    count: int
    bytes_read: int


async def _removed_parts(
    connection: Connection, enriched: Sequence[tuple[EnrichedEvent, Event | None]], bytes_max: int | None
) -> _RemovedParts:
    """The parts that commits removed, of at most `bytes_max`, plus those of one commit; an event has only their ordinals."""
    wanted = [
        (number, each.event.stream_id, kind, ordinal)
        for number, (each, decoded) in enumerate(enriched)
        if isinstance(decoded, domain_events.TableCommitted)
        for kind, change in decoded.delta["parts"].items()
        if kind in REMOVALS_NAMED
        for ordinal in change["removed"]
    ]
    if not wanted:
        return _RemovedParts({}, len(enriched), 0)
    found: dict[tuple[UUID, str, int], Json] = {}
    count, bytes_read = len(enriched), 0
    for part in await read_removed_parts(connection, wanted, bytes_max):
        if not part.is_read:
            count = min(count, part.number)
            continue
        removed = {"snapshot-id": part.snapshot_id}
        if part.body is not None:
            removed = part_value(part_from_body(part.kind, part.ordinal, part.body))
            bytes_read += len(part.body)
        found[part.table_id, part.kind, part.ordinal] = removed
    return _RemovedParts(found, count, bytes_read)
