"""The `data` of CloudEvents: one type for each kind of event. The JSON Schemas are generated from these types.

Members without a value are omitted. Members are spelled as in the Iceberg specifications. Consumers depend on these types: only
add members, or give the topic its next version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, TypeAdapter

Mode = Literal["structured", "binary"]
"""How a CloudEvent is sent: the whole event as the body, or its attributes as headers."""
Dialect = Literal["icecore", "lakekeeper"]
"""The names of event types: Icecore's or Lakekeeper's."""

TYPE_PREFIX = "io.icecore."
"""The type of a CloudEvent is this prefix and the topic."""
SCHEMA_PREFIX = "urn:icecore:schema:"
"""The name of a schema is this prefix and the type; GET /management/v1/events/schemas/<type> returns it."""


def _spelled(name: str) -> str:
    return name.replace("_", "-")


# Lists and objects that may be empty; the schemas say so too.
_Strings = Annotated[list[str], Field(json_schema_extra={"default": []})]
_StringsByName = Annotated[dict[str, str], Field(json_schema_extra={"default": {}})]


@dataclass(slots=True)
class EventData:
    """One JSON object of an event's data.

    A plain dataclass that pydantic serializes, because validating a pydantic model takes twice as long as serializing it.
    """

    __pydantic_config__ = ConfigDict(alias_generator=_spelled, use_attribute_docstrings=True)

    def to_json(self) -> bytes:
        """The object as it is sent. Raises PydanticSerializationError for a member of the wrong type."""
        return self._write()(self, by_alias=True, exclude_none=True, warnings="error")

    @classmethod
    @cache
    def _write(cls) -> Callable[..., bytes]:
        # Not TypeAdapter.dump_json, which would take a quarter of the time by itself.
        return cls.adapter().serializer.to_json

    @classmethod
    @cache
    def adapter(cls) -> TypeAdapter[Any]:
        """The pydantic adapter of this type: its serializer and its JSON Schema."""
        return TypeAdapter(cls)


@dataclass(slots=True, kw_only=True)
class WarehouseName(EventData):
    """A warehouse with its name at the time of the event."""

    id: UUID
    name: str


@dataclass(slots=True, kw_only=True)
class NamespaceName(EventData):
    """A namespace with its levels at the time of the event, outermost first."""

    id: UUID
    name: list[str]


@dataclass(slots=True, kw_only=True)
class TabularName(EventData):
    """A table or view with its name at the time of the event."""

    id: UUID
    """Icecore's id. It survives renames and is never reused."""
    uuid: UUID
    """Iceberg's table-uuid or view-uuid."""
    name: str
    namespace: NamespaceName
    warehouse: WarehouseName


@dataclass(slots=True, kw_only=True)
class PreviousName(EventData):
    """The name of a table or view before it was renamed."""

    name: str
    namespace: NamespaceName


@dataclass(slots=True, kw_only=True)
class Snapshot(EventData):
    """A snapshot, without its manifests."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None
    timestamp_ms: int | None = None
    schema_id: int | None = None
    operation: str | None = None
    summary: _StringsByName = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SnapshotReference(EventData):
    """A branch or tag and the snapshot it names."""

    name: str
    type: str
    snapshot_id: int


_Snapshots = Annotated[list[Snapshot], Field(json_schema_extra={"default": []})]
_Refs = Annotated[list[SnapshotReference], Field(json_schema_extra={"default": []})]


@dataclass(slots=True, kw_only=True)
class ProjectName(EventData):
    """A project with its name after the event."""

    id: UUID
    name: str


@dataclass(slots=True, kw_only=True)
class ProjectEvent(EventData):
    """A project."""

    project: ProjectName


@dataclass(slots=True, kw_only=True)
class ProjectRenamed(EventData):
    """A renamed project; `project` has its new name."""

    project: ProjectName
    previous_name: str


@dataclass(slots=True, kw_only=True)
class WarehouseEvent(EventData):
    """A warehouse."""

    warehouse: WarehouseName
    storage_type: str | None = None
    """Set by `warehouse.created`."""
    exact_names: bool | None = None
    """Whether names are case-sensitive. Set by `warehouse.created`."""


@dataclass(slots=True, kw_only=True)
class WarehouseConfigChanged(EventData):
    """A warehouse and the properties of its clients' configuration that this event changed."""

    warehouse: WarehouseName
    defaults_set: _StringsByName = field(default_factory=dict)
    defaults_removed: _Strings = field(default_factory=list)
    overrides_set: _StringsByName = field(default_factory=dict)
    overrides_removed: _Strings = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class WarehouseRenamed(EventData):
    """A renamed warehouse; `warehouse` has its new name."""

    warehouse: WarehouseName
    previous_name: str


@dataclass(slots=True, kw_only=True)
class WarehouseProtectionChanged(EventData):
    """A warehouse, and whether it is protected from deletion now."""

    warehouse: WarehouseName
    protected: bool


@dataclass(slots=True, kw_only=True)
class WarehouseReadOnlyChanged(EventData):
    """A warehouse, and whether changes in it are refused now."""

    warehouse: WarehouseName
    read_only: bool


@dataclass(slots=True, kw_only=True)
class WarehouseFormatVersionPolicyChanged(EventData):
    """A warehouse, and the format versions that its tables may have now."""

    warehouse: WarehouseName
    allowed_format_versions: list[int]
    default_format_version: int | None = None


@dataclass(slots=True, kw_only=True)
class WarehouseStorageChanged(EventData):
    """A warehouse whose storage profile or credential was changed."""

    warehouse: WarehouseName
    storage_type: str | None = None
    """Set if the storage profile was changed."""
    has_credential: bool
    """Whether it has a credential now."""


@dataclass(slots=True, kw_only=True)
class WarehouseDeleteProfileChanged(EventData):
    """A warehouse, and what a drop of one of its tables or views does now."""

    warehouse: WarehouseName
    type: str
    """`hard` or `soft`."""
    expiration_seconds: int | None = None
    """How long something that is dropped can be undropped, if `type` is `soft`."""


@dataclass(slots=True, kw_only=True)
class WarehousePurgeDefaultChanged(EventData):
    """A warehouse, and whether a drop that does not say so deletes the files of a table now."""

    warehouse: WarehouseName
    purge: bool


@dataclass(slots=True, kw_only=True)
class WarehouseNamespaceMoved(EventData):
    """A namespace of a warehouse was moved; the event of the namespace before this one has both paths."""

    warehouse: WarehouseName
    namespace_id: UUID


@dataclass(slots=True, kw_only=True)
class WarehouseTaskQueueConfigChanged(EventData):
    """A warehouse, and the configuration of one of its queues of tasks."""

    warehouse: WarehouseName
    queue: str
    max_seconds_since_last_heartbeat: int | None = None
    """An attempt without a heartbeat for longer is ended and retried. Absent: the default."""


@dataclass(slots=True, kw_only=True)
class NamespaceEvent(EventData):
    """A namespace, and the properties that `namespace.created` or `namespace.properties-changed` set and removed."""

    namespace: NamespaceName
    warehouse: WarehouseName
    parent_id: UUID | None = None
    """The id of the namespace above, or of the warehouse. Set by `namespace.created`."""
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class NamespaceMoved(EventData):
    """A namespace has another path, and so has everything in it. Locations are unchanged."""

    namespace: NamespaceName
    warehouse: WarehouseName
    parent_id: UUID | None = None
    """The id of the namespace above, or of the warehouse."""
    previous_name: list[str]
    """The former path, outermost level first."""


@dataclass(slots=True, kw_only=True)
class NamespaceDropped(NamespaceEvent):
    """A dropped namespace."""

    expires_at: str | None = None
    """If it is a soft deletion: until when the namespace can be undropped with all that was dropped with it."""
    root_id: UUID | None = None
    """If it is part of a recursive drop: the id of the namespace that was dropped recursively, which may be this one."""


@dataclass(slots=True, kw_only=True)
class NamespaceProtectionChanged(EventData):
    """A namespace, and whether it is protected from being dropped now."""

    namespace: NamespaceName
    warehouse: WarehouseName
    protected: bool


@dataclass(slots=True, kw_only=True)
class TableMetadataEvent(EventData):
    """A table with a new metadata file: it was created, registered, overwritten or committed to."""

    table: TabularName
    metadata_location: str
    previous_metadata_location: str | None = None
    location: str | None = None
    """The table's location, if this event set it."""
    format_version: int | None = None
    """The format version, if this event set it."""
    current_snapshot_id: int | None = None
    """The current snapshot after this event. Absent if the table has no snapshot."""
    operation: str | None = None
    """The operation of the current snapshot, if this event made it current."""
    summary: dict[str, str] | None = None
    """The summary of the current snapshot, if this event made it current."""
    schema_id: int | None = None
    """The current schema, if this event set it."""
    default_spec_id: int | None = None
    """The default spec id, if this event set it."""
    default_sort_order_id: int | None = None
    """The default sort order id, if this event set it."""
    snapshots_added: _Snapshots = field(default_factory=list)
    """Snapshots that a commit added."""
    snapshots_removed: int = 0
    """Number of snapshots that a commit removed."""
    refs_set: _Refs = field(default_factory=list)
    """Branches and tags that this event created or moved."""
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)
    actions: _Strings = field(default_factory=list)
    """The requested update actions, as in the REST specification."""


@dataclass(slots=True, kw_only=True)
class TableRenamed(EventData):
    """A renamed table; `table` has its new name."""

    table: TabularName
    previous: PreviousName
    metadata_location: str


@dataclass(slots=True, kw_only=True)
class TableRemovedEvent(EventData):
    """A table that was dropped, undropped, unregistered or purged, whose soft deletion has expired, or whose purge was cancelled."""

    table: TabularName
    metadata_location: str
    """The last metadata file."""
    purge_requested: bool | None = None
    gc_enabled: bool | None = None
    """False if the client requested a purge and the table's property gc.enabled keeps its files."""
    expires_at: str | None = None
    """If `table.dropped` is a soft deletion: until when the table can be undropped."""
    files_deleted: int | None = None
    files_left: _Strings = field(default_factory=list)
    """Files that were not deleted, because they are outside the table's locations or could not be read; the first of `files-left-count`."""
    files_left_count: int | None = None


@dataclass(slots=True, kw_only=True)
class TableProtectionChanged(EventData):
    """A table, and whether it is protected from being dropped now."""

    table: TabularName
    metadata_location: str
    protected: bool


@dataclass(slots=True, kw_only=True)
class TableChanged(EventData):
    """Any other event of a table; `change` is the state of the event in the log."""

    table: TabularName
    metadata_location: str
    change: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ViewMetadataEvent(EventData):
    """A view with a new metadata file: it was created, registered or committed to."""

    view: TabularName
    metadata_location: str
    previous_metadata_location: str | None = None
    location: str | None = None
    """The view's location, if this event set it."""
    current_version_id: int
    schema_id: int | None = None
    """The schema of the current version, if this event changed the version."""
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)
    actions: _Strings = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ViewRenamed(EventData):
    """A renamed view; `view` has its new name."""

    view: TabularName
    previous: PreviousName
    metadata_location: str


@dataclass(slots=True, kw_only=True)
class ViewRemovedEvent(EventData):
    """A view that was dropped or undropped, or whose soft deletion has expired."""

    view: TabularName
    metadata_location: str
    """The last metadata file."""
    expires_at: str | None = None
    """If `view.dropped` is a soft deletion: until when the view can be undropped."""


@dataclass(slots=True, kw_only=True)
class ViewProtectionChanged(EventData):
    """A view, and whether it is protected from being dropped now."""

    view: TabularName
    metadata_location: str
    protected: bool


@dataclass(slots=True, kw_only=True)
class ViewChanged(EventData):
    """Any other event of a view; `change` is the state of the event in the log."""

    view: TabularName
    metadata_location: str
    change: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ProposalObject(EventData):
    """An object that a proposed change affects, with its name when the proposal was opened."""

    kind: str
    id: UUID
    """The object's id. For an object that does not exist yet, the id it would have had."""
    name: list[str]
    """Levels, outermost first, without the warehouse."""


@dataclass(slots=True, kw_only=True)
class ProposalEvent(EventData):
    """A change that an approval hook held. GET /management/v1/proposals/<id> returns its command."""

    id: UUID
    warehouse: WarehouseName
    status: str
    """`open`, `approved`, `rejected`, `expired` or `stale`."""
    operation: str
    """The operationId of the REST specification."""
    objects: list[ProposalObject]
    hook: str
    reason: str
    """The hook's reason."""
    proposed_by: str
    opened_at: str
    expires_at: str
    """When the proposal expires."""
    decided_by: str | None = None
    decision_reason: str | None = None


@dataclass(slots=True, kw_only=True)
class TaskEvent(EventData):
    """A task: the expiry of a soft-deleted table or view, or the purge of a table."""

    id: UUID
    """The id of the event that made the task necessary."""
    warehouse: WarehouseName
    queue: str
    """`tabular_expiration` or `tabular_purge`."""
    object_kind: str
    """`table` or `view`."""
    object_id: UUID
    scheduled_for: str | None = None
    """When the next attempt begins. Set by `task.scheduled` and `task.attempt-failed`."""
    attempt: int | None = None
    started_at: str | None = None
    failed_at: str | None = None
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class MaintenanceEvent(EventData):
    """A maintenance run: a procedure of Iceberg on one table."""

    id: UUID
    """Of the run."""
    warehouse: WarehouseName
    table_id: UUID
    procedure: str
    """`rewrite_data_files`, `rewrite_position_delete_files`, `rewrite_manifests`, `expire_snapshots` or `remove_orphan_files`."""
    reason: str | None = None
    """Why it is to run. Set by `maintenance.planned`, as `estimate` and `shadow` are; the other members by `maintenance.finished`."""
    estimate: dict[str, int] | None = None
    shadow: bool | None = None
    """Whether it was only planned, to compare estimates."""
    outcome: str | None = None
    """`success`, `conflict`, `failed`, or `unavailable`: the catalog did not respond."""
    measured: dict[str, int] | None = None
    attempts: int | None = None
    duration_ms: int | None = None
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class OtherEvent(EventData):
    """An event of any other object; `change` is the state of the event in the log."""

    id: UUID
    name: _Strings = field(default_factory=list)
    """The name with its parents, outermost first, if it has one."""
    change: dict[str, Any]


_TYPES: dict[str, type[EventData]] = {
    "project.renamed": ProjectRenamed,
    "warehouse.config-changed": WarehouseConfigChanged,
    "warehouse.renamed": WarehouseRenamed,
    "warehouse.protection-changed": WarehouseProtectionChanged,
    "warehouse.format-version-policy-changed": WarehouseFormatVersionPolicyChanged,
    "warehouse.read-only-changed": WarehouseReadOnlyChanged,
    "warehouse.storage-profile-changed": WarehouseStorageChanged,
    "warehouse.storage-credential-changed": WarehouseStorageChanged,
    "namespace.protection-changed": NamespaceProtectionChanged,
    "namespace.moved": NamespaceMoved,
    "warehouse.namespace-moved": WarehouseNamespaceMoved,
    "namespace.dropped": NamespaceDropped,
    "warehouse.delete-profile-changed": WarehouseDeleteProfileChanged,
    "warehouse.purge-default-changed": WarehousePurgeDefaultChanged,
    "warehouse.task-queue-config-changed": WarehouseTaskQueueConfigChanged,
    "table.created": TableMetadataEvent,
    "table.registered": TableMetadataEvent,
    "table.overwritten": TableMetadataEvent,
    "table.committed": TableMetadataEvent,
    "table.renamed": TableRenamed,
    "table.protection-changed": TableProtectionChanged,
    "table.dropped": TableRemovedEvent,
    "table.undropped": TableRemovedEvent,
    "table.expired": TableRemovedEvent,
    "table.unregistered": TableRemovedEvent,
    "table.purged": TableRemovedEvent,
    "table.purge-cancelled": TableRemovedEvent,
    "view.created": ViewMetadataEvent,
    "view.registered": ViewMetadataEvent,
    "view.committed": ViewMetadataEvent,
    "view.renamed": ViewRenamed,
    "view.protection-changed": ViewProtectionChanged,
    "view.dropped": ViewRemovedEvent,
    "view.undropped": ViewRemovedEvent,
    "view.expired": ViewRemovedEvent,
}
_OTHER_OF_KIND: dict[str, type[EventData]] = {
    "project": ProjectEvent,
    "warehouse": WarehouseEvent,
    "namespace": NamespaceEvent,
    "table": TableChanged,
    "view": ViewChanged,
    "proposal": ProposalEvent,
    "task": TaskEvent,
    "maintenance": MaintenanceEvent,
}


def data_type(topic: str) -> type[EventData]:
    """The type of the data for a topic of the log (`table.committed.v1`)."""
    kind, _, rest = topic.partition(".")
    return _TYPES.get(f"{kind}.{rest.rpartition('.')[0]}") or _OTHER_OF_KIND.get(kind, OtherEvent)
