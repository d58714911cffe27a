"""Enriches events with the data that consumers read: from the event, and from what it refers to as of its position."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, Literal, cast
from uuid import UUID

import orjson

from ..database.connections import Connection
from ..domain import events as domain_events
from ..domain.documents import Json
from ..domain.events import Event, data_json, decode, is_large
from ..domain.proposal import time_text_or_none
from ..domain.recorded import RecordedEvent
from . import event_data as data
from .enriched_event import EnrichedBatch, EnrichedEvent
from .maintenance_data import maintenance_data
from .proposal_data import proposal_data
from .references import Path, PathCache, ReferenceReader, References, SnapshotKey
from .task_data import task_data
from .warehouse_data import warehouse_data

_NAMES_MAX = 10_000
_KEPT_PATH_LENGTH_MAX = 200
"""Names of tables are cached if their paths are shorter than this, as ordinary ones are. The longest would take 16 KB each."""
DOCUMENTS_BYTES_MAX = 1024 * 1024
"""Limit on the tables' heads and views' documents that the events of one batch refer to: a small event may refer to a large one."""

IsChosen = Callable[[RecordedEvent, Path | None], bool]
"""Whether an event is wanted, by the path to its namespace or warehouse."""


class EventEnricher:
    """Enriches events.

    names_only -- types of table events, without version, that get only names and locations; their states are not read.
    current_snapshots -- whether a roll-back to an earlier snapshot includes that snapshot.
    path_cache -- a cache that is shared with other enrichers.
    """

    def __init__(self, *, names_only: Collection[str] = (), current_snapshots: bool = True, path_cache: PathCache | None = None) -> None:
        self._reader = ReferenceReader(path_cache)
        self._current_snapshots = current_snapshots
        self._names_only = names_only

    async def enrich(
        self, connection: Connection, wanted: Sequence[RecordedEvent], *, is_chosen: IsChosen | None = None, bytes_max: int | None = None
    ) -> EnrichedBatch[EnrichedEvent]:
        """Enriches the `wanted` events, in order; if `is_chosen` is given, only those that it selects by their names.

        bytes_max -- limit on the data besides the events' states; the event that reaches it is the last but one. With a limit, at most
        DOCUMENTS_BYTES_MAX of documents are read, plus one. If fewer events than wanted are returned, call it again for the rest.
        """
        found = await self.enrich_decoded(connection, wanted, is_chosen=is_chosen, bytes_max=bytes_max)
        return EnrichedBatch([enriched for enriched, _ in found.events], found.count, found.bytes_read)

    async def enrich_decoded(
        self, connection: Connection, wanted: Sequence[RecordedEvent], *, is_chosen: IsChosen | None = None, bytes_max: int | None = None
    ) -> EnrichedBatch[tuple[EnrichedEvent, Event | None]]:
        """As `enrich`, with the decoded events; None for those that get only names."""
        found = await self._reader.read(connection, wanted)
        numbered = [(n, event) for n, event in enumerate(wanted) if is_chosen is None or is_chosen(event, found.paths.get(event.position))]
        count = len(wanted)
        if bytes_max is not None and (cut := _cut(found, [event for _, event in numbered])) < len(numbered):
            count, numbered = numbered[cut][0], numbered[:cut]
        await self._reader.read_documents(connection, found, [event for _, event in numbered])
        decoded_events = [await self._decoded(event) for _, event in numbered]
        snapshots: list[SnapshotKey | None] = [None] * len(numbered)
        if self._current_snapshots:
            snapshots = [_snapshot_wanted(event, decoded) for (_, event), decoded in zip(numbered, decoded_events, strict=True)]
        sizes = await self._reader.read_snapshots(connection, found, snapshots, bytes_max)
        enriched: list[tuple[EnrichedEvent, Event | None]] = []
        held = read = 0
        for (number, event), decoded, size in zip(numbered, decoded_events, sizes, strict=True):
            if bytes_max is not None and held > bytes_max:
                count = number
                break
            enriched_event = _enrich_names(event, found) if decoded is None else _enrich(event, decoded, found)
            enriched.append((enriched_event, decoded))
            held += size + sum(map(len, enriched_event.path))
            read += size + found.documents_bytes(event.position)
            found.drop_documents(event.position)
        return EnrichedBatch(enriched, count, read)

    async def _decoded(self, event: RecordedEvent) -> Event | None:
        if event.topic.rpartition(".")[0] in self._names_only:
            return None
        if is_large(event.data):
            return await asyncio.to_thread(decode, event.topic, event.data)
        return decode(event.topic, event.data)


def _cut(found: References, events: Sequence[RecordedEvent]) -> int:
    """How many of the events can be enriched from at most DOCUMENTS_BYTES_MAX of documents, plus one event."""
    size = 0
    for number, event in enumerate(events):
        if size > DOCUMENTS_BYTES_MAX:
            return number
        size += found.documents_bytes(event.position)
    return len(events)


def _enrich_names(event: RecordedEvent, found: References) -> EnrichedEvent:
    name, path = _tabular_name(event, found, "table")
    location = found.rows[event.position].metadata_location
    return EnrichedEvent(event, path, data.TableChanged(table=name, metadata_location=location, change={}))


def _enrich(event: RecordedEvent, decoded: Event, found: References) -> EnrichedEvent:
    match event.topic.partition(".")[0]:
        case "table" | "view" as kind:
            name, names = _tabular_name(event, found, kind)
            content = _table(event, decoded, name, found) if kind == "table" else _view(event, decoded, name, found)
            return EnrichedEvent(event, names, content)
        case "namespace":
            path = found.paths[event.position]
            return EnrichedEvent(event, path.names, _namespace(event, decoded, path, found))
        case "warehouse":
            path = found.paths[event.position]
            return EnrichedEvent(event, path.names, warehouse_data(event, decoded, found))
        case "project":
            return EnrichedEvent(event, (), _project(event, decoded, found))
        case "proposal" | "task" | "maintenance" as kind:
            path = found.paths[event.position]
            return EnrichedEvent(event, (*path.names, str(event.stream_id)), _of_warehouse(event, kind, decoded, path, found))
    other = found.paths.get(event.position)
    names = () if other is None else other.names
    return EnrichedEvent(event, names, data.OtherEvent(id=event.stream_id, name=list(names), change=orjson.loads(data_json(event.data))))


def _of_warehouse(
    event: RecordedEvent, kind: Literal["proposal", "task", "maintenance"], decoded: Event, path: Path, found: References
) -> data.EventData:
    match kind:
        case "proposal":
            return proposal_data(event, path, found)
        case "task":
            return task_data(event, cast("domain_events.TaskFact", decoded), path)
        case "maintenance":
            return maintenance_data(event, cast("domain_events.MaintenanceEvent", decoded), path)


def _project(event: RecordedEvent, decoded: Event, found: References) -> data.EventData:
    project = data.ProjectName(id=event.stream_id, name=found.projects[event.stream_id, event.version])
    if isinstance(decoded, domain_events.ProjectRenamed):
        return data.ProjectRenamed(project=project, previous_name=found.projects[event.stream_id, event.version - 1])
    return data.ProjectEvent(project=project)


def _namespace(event: RecordedEvent, decoded: Event, path: Path, found: References) -> data.EventData:
    name = data.NamespaceName(id=event.stream_id, name=list(path.names[1:]))
    warehouse = data.WarehouseName(id=event.warehouse_id, name=path.names[0])
    match decoded:
        case domain_events.NamespaceCreated():
            return data.NamespaceEvent(namespace=name, warehouse=warehouse, parent_id=decoded.parent_id, properties_set=decoded.properties)
        case domain_events.NamespacePropertiesChanged():
            return data.NamespaceEvent(
                namespace=name, warehouse=warehouse, properties_set=decoded.updates, properties_removed=decoded.removals
            )
        case domain_events.NamespaceMoved():
            previous = found.paths_before[event.position]
            return data.NamespaceMoved(
                namespace=name, warehouse=warehouse, parent_id=decoded.parent_id, previous_name=list(previous.names[1:])
            )
        case domain_events.NamespaceProtectionChanged():
            return data.NamespaceProtectionChanged(namespace=name, warehouse=warehouse, protected=decoded.protected)
        case domain_events.NamespaceDropped():
            expires_at = time_text_or_none(decoded.expires_at_ms)
            return data.NamespaceDropped(namespace=name, warehouse=warehouse, expires_at=expires_at, root_id=decoded.root_id)
    return data.NamespaceEvent(namespace=name, warehouse=warehouse)


def _tabular_name(event: RecordedEvent, found: References, kind: str) -> tuple[data.TabularName, tuple[str, ...]]:
    row = found.rows[event.position]
    path = found.paths[event.position]
    ordinary = sum(map(len, path.names)) + len(row.name) <= _KEPT_PATH_LENGTH_MAX
    name = (_kept_name if ordinary else _name)(
        event.stream_id, row.document[f"{kind}-uuid"], row.name, row.namespace_id, event.warehouse_id, path.names
    )
    return name, (*path.names, row.name)


def _name(
    tabular_id: UUID, tabular_uuid: str, name: str, namespace_id: UUID, warehouse_id: UUID, path: tuple[str, ...]
) -> data.TabularName:
    return data.TabularName(
        id=tabular_id,
        uuid=UUID(tabular_uuid),
        name=name,
        namespace=data.NamespaceName(id=namespace_id, name=list(path[1:])),
        warehouse=data.WarehouseName(id=warehouse_id, name=path[0]),
    )


# Cached, because it is the same for all events of a table between two renames, and takes as long as the rest of an event.
_kept_name = lru_cache(_NAMES_MAX)(_name)


def _previous(event: RecordedEvent, found: References) -> data.PreviousName:
    row = found.rows_before[event.position]
    # If the namespace is the same, its path is the current one.
    path = found.paths_before.get(event.position) or found.paths[event.position]
    return data.PreviousName(name=row.name, namespace=data.NamespaceName(id=row.namespace_id, name=list(path.names[1:])))


def _table(event: RecordedEvent, decoded: Event, name: data.TabularName, found: References) -> data.EventData:
    row = found.rows[event.position]
    location = row.metadata_location
    match decoded:
        case domain_events.TableCreated() | domain_events.TableRegistered():
            return _table_begun(name, location, decoded.metadata)
        case domain_events.TableOverwritten():
            return _table_overwritten(event, decoded, name, found)
        case domain_events.TableCommitted():
            return _table_committed(event, decoded, name, found)
        case domain_events.TableRenamed():
            return data.TableRenamed(table=name, previous=_previous(event, found), metadata_location=location)
        case domain_events.TableProtectionChanged():
            return data.TableProtectionChanged(table=name, metadata_location=location, protected=decoded.protected)
        case domain_events.TableDropped():
            return data.TableRemovedEvent(
                table=name,
                metadata_location=location,
                purge_requested=decoded.purge_requested,
                gc_enabled=decoded.gc_enabled,
                expires_at=time_text_or_none(decoded.expires_at_ms),
            )
        case (
            domain_events.TableUnregistered()
            | domain_events.TableUndropped()
            | domain_events.TableExpired()
            | domain_events.TablePurgeCancelled()
        ):
            return data.TableRemovedEvent(table=name, metadata_location=location)
        case domain_events.TablePurged():
            return data.TableRemovedEvent(
                table=name,
                metadata_location=location,
                files_deleted=decoded.files_deleted,
                files_left=decoded.files_left or [],
                files_left_count=decoded.files_left_count,
            )
    return data.TableChanged(table=name, metadata_location=location, change=orjson.loads(data_json(event.data)))


def _table_begun(name: data.TabularName, location: str, metadata: Json, **changed: Any) -> data.TableMetadataEvent:
    snapshot_id = metadata["current-snapshot-id"]
    current = next((_snapshot(each) for each in metadata["snapshots"] if each["snapshot-id"] == snapshot_id), None)
    return data.TableMetadataEvent(
        **{"properties_set": metadata["properties"], **changed},
        table=name,
        metadata_location=location,
        location=metadata["location"],
        format_version=metadata["format-version"],
        current_snapshot_id=snapshot_id,
        operation=None if current is None else current.operation,
        summary=None if current is None else current.summary,
        schema_id=metadata["current-schema-id"],
        default_spec_id=metadata["default-spec-id"],
        default_sort_order_id=metadata["default-sort-order-id"],
        refs_set=[
            data.SnapshotReference(name=ref, type=each["type"], snapshot_id=each["snapshot-id"]) for ref, each in metadata["refs"].items()
        ],
    )


def _table_overwritten(
    event: RecordedEvent, decoded: domain_events.TableOverwritten, name: data.TabularName, found: References
) -> data.TableMetadataEvent:
    before = found.rows_before[event.position]
    old, new = before.document["properties"], decoded.metadata["properties"]
    return _table_begun(
        name,
        decoded.metadata_location,
        decoded.metadata,
        previous_metadata_location=before.metadata_location,
        properties_set={key: value for key, value in new.items() if old.get(key) != value},
        properties_removed=[key for key in old if key not in new],
    )


def _table_committed(
    event: RecordedEvent, decoded: domain_events.TableCommitted, name: data.TabularName, found: References
) -> data.TableMetadataEvent:
    head = found.rows[event.position].document
    changed, parts = decoded.delta["head"]["set"], decoded.delta["parts"]
    added = [_snapshot(each) for each in _added(parts, "snapshots")]
    current_id = _current_snapshot_id(head)
    current = None
    if "current-snapshot-id" in changed and current_id is not None:
        current = next((each for each in added if each.snapshot_id == current_id), None)
        if current is None and (event.stream_id, current_id) in found.snapshots:
            current = _snapshot(found.snapshots[event.stream_id, current_id])
    return data.TableMetadataEvent(
        table=name,
        metadata_location=decoded.metadata_location,
        previous_metadata_location=found.rows_before[event.position].metadata_location,
        location=changed.get("location"),
        format_version=changed.get("format-version"),
        current_snapshot_id=current_id,
        operation=None if current is None else current.operation,
        summary=None if current is None else current.summary,
        schema_id=changed.get("current-schema-id"),
        default_spec_id=changed.get("default-spec-id"),
        default_sort_order_id=changed.get("default-sort-order-id"),
        snapshots_added=added,
        snapshots_removed=len(parts.get("snapshots", {}).get("removed", ())),
        refs_set=[
            data.SnapshotReference(name=ref, type=each["type"], snapshot_id=each["snapshot-id"])
            for _, each, ref in parts.get("refs", {}).get("added", ())
        ],
        properties_set=decoded.delta["properties"]["set"],
        properties_removed=decoded.delta["properties"]["removed"],
        actions=decoded.actions,
    )


def _view(event: RecordedEvent, decoded: Event, name: data.TabularName, found: References) -> data.EventData:
    row = found.rows[event.position]
    location = row.metadata_location
    match decoded:
        case domain_events.ViewCreated() | domain_events.ViewRegistered():
            return data.ViewMetadataEvent(
                view=name,
                metadata_location=location,
                location=decoded.metadata["location"],
                current_version_id=decoded.metadata["current-version-id"],
                schema_id=_view_schema_id(decoded.metadata),
                properties_set=decoded.metadata.get("properties", {}),
            )
        case domain_events.ViewCommitted():
            changed = decoded.delta["head"]["set"]
            return data.ViewMetadataEvent(
                view=name,
                metadata_location=location,
                previous_metadata_location=found.rows_before[event.position].metadata_location,
                location=changed.get("location"),
                current_version_id=row.document["current-version-id"],
                schema_id=_view_schema_id(row.document) if "current-version-id" in changed else None,
                properties_set=decoded.delta["properties"]["set"],
                properties_removed=decoded.delta["properties"]["removed"],
                actions=decoded.actions,
            )
        case domain_events.ViewRenamed():
            return data.ViewRenamed(view=name, previous=_previous(event, found), metadata_location=location)
        case domain_events.ViewProtectionChanged():
            return data.ViewProtectionChanged(view=name, metadata_location=location, protected=decoded.protected)
        case domain_events.ViewDropped():
            return data.ViewRemovedEvent(view=name, metadata_location=location, expires_at=time_text_or_none(decoded.expires_at_ms))
        case domain_events.ViewUndropped() | domain_events.ViewExpired():
            return data.ViewRemovedEvent(view=name, metadata_location=location)
    return data.ViewChanged(view=name, metadata_location=location, change=orjson.loads(data_json(event.data)))


def _view_schema_id(document: Json) -> int | None:
    current = document["current-version-id"]
    found: int | None = next((each["schema-id"] for each in document["versions"] if each["version-id"] == current), None)
    return found


def _snapshot_wanted(event: RecordedEvent, decoded: Event | None) -> SnapshotKey | None:
    """The current snapshot, if a commit set it without adding it: a roll-back, or a fast-forward of a branch."""
    if not isinstance(decoded, domain_events.TableCommitted) or "current-snapshot-id" not in decoded.delta["head"]["set"]:
        return None
    current = _current_snapshot_id(decoded.delta["head"]["set"])
    if current is None or any(each["snapshot-id"] == current for each in _added(decoded.delta["parts"], "snapshots")):
        return None
    return event.stream_id, event.version, current


def _current_snapshot_id(head: Json) -> int | None:
    """Before v3, -1 means that there is none."""
    current: int | None = head["current-snapshot-id"]
    return None if current == -1 else current


def _added(parts: Json, kind: str) -> list[Json]:
    return [value for _, value, *_ in parts.get(kind, {}).get("added", ())]


def _snapshot(snapshot: Json) -> data.Snapshot:
    # The operation is a member of its own in the event.
    summary = dict(snapshot.get("summary", {}))
    return data.Snapshot(
        snapshot_id=snapshot["snapshot-id"],
        parent_snapshot_id=snapshot.get("parent-snapshot-id"),
        sequence_number=snapshot.get("sequence-number"),
        timestamp_ms=snapshot.get("timestamp-ms"),
        schema_id=snapshot.get("schema-id"),
        operation=summary.pop("operation", None),
        summary=summary,
    )
