"""What the `data` of each CloudEvent holds: one type per kind of event, from which the JSON Schemas are made too.

A member that says nothing is left out: no current snapshot, an id that did not change. Members are spelled as the Iceberg specs
spell theirs. Changing a type here changes what consumers read: only add members, or give the topic its next version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, TypeAdapter

Mode = Literal["structured", "binary"]
"""How a CloudEvent travels: whole in the body, or its attributes as headers."""
Dialect = Literal["icecore", "lakekeeper"]
"""Whose names event types have."""

TYPE_PREFIX = "io.icecore."
"""A CloudEvent's type is this and the topic."""
SCHEMA_PREFIX = "urn:icecore:schema:"
"""Before the type, the name of its schema; GET /management/v1/events/schemas/<type> answers with it."""


def _spelled(name: str) -> str:
    return name.replace("_", "-")


# Lists and objects that may be empty; the schemas say so too.
_Strings = Annotated[list[str], Field(json_schema_extra={"default": []})]
_StringsByName = Annotated[dict[str, str], Field(json_schema_extra={"default": {}})]


@dataclass(slots=True)
class EventData:
    """One JSON object of an event's data.

    A plain dataclass, which pydantic writes: making a model, member by member checked, took twice as long as all of the writing.
    """

    __pydantic_config__ = ConfigDict(alias_generator=_spelled, use_attribute_docstrings=True)

    def to_json(self) -> bytes:
        """The object as it is sent. Raises PydanticSerializationError for a member of another type than it says."""
        return self._write()(self, by_alias=True, exclude_none=True, warnings="error")

    @classmethod
    @cache
    def _write(cls) -> Callable[..., bytes]:
        # Not the adapter's own method: the way through it takes a quarter of the time.
        return cls.adapter().serializer.to_json

    @classmethod
    @cache
    def adapter(cls) -> TypeAdapter[Any]:
        """What writes objects of this type, and knows its schema."""
        return TypeAdapter(cls)


@dataclass(slots=True, kw_only=True)
class WarehouseName(EventData):
    """A warehouse, and its name as of the event."""

    id: UUID
    name: str


@dataclass(slots=True, kw_only=True)
class NamespaceName(EventData):
    """A namespace, and its levels as of the event, outermost first."""

    id: UUID
    name: list[str]


@dataclass(slots=True, kw_only=True)
class TabularName(EventData):
    """A table or view, and what it was called as of the event."""

    id: UUID
    """Icecore's id: the same through renames, and never used again."""
    uuid: UUID
    """Iceberg's table-uuid or view-uuid."""
    name: str
    namespace: NamespaceName
    warehouse: WarehouseName


@dataclass(slots=True, kw_only=True)
class PreviousName(EventData):
    """Where a table or view was found before it was renamed."""

    name: str
    namespace: NamespaceName


@dataclass(slots=True, kw_only=True)
class SnapshotPointer(EventData):
    """A snapshot, without its manifests."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None
    timestamp_ms: int | None = None
    schema_id: int | None = None
    operation: str | None = None
    summary: _StringsByName = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class RefPointer(EventData):
    """A branch or tag and the snapshot it names."""

    name: str
    type: str
    snapshot_id: int


_Snapshots = Annotated[list[SnapshotPointer], Field(json_schema_extra={"default": []})]
_Refs = Annotated[list[RefPointer], Field(json_schema_extra={"default": []})]


@dataclass(slots=True, kw_only=True)
class WarehouseEvent(EventData):
    """A warehouse."""

    warehouse: WarehouseName
    storage_type: str | None = None
    """Set when it was created."""
    exact_names: bool | None = None
    """Names are told apart by case; set when it was created."""


@dataclass(slots=True, kw_only=True)
class NamespaceEvent(EventData):
    """A namespace; `properties_set` and `properties_removed` are what this event changed."""

    namespace: NamespaceName
    warehouse: WarehouseName
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TableWritten(EventData):
    """A table that has a new metadata file: created, registered, overwritten or committed to."""

    table: TabularName
    metadata_location: str
    previous_metadata_location: str | None = None
    location: str | None = None
    """Where the table lies, if this event set it."""
    format_version: int | None = None
    """If this event set it."""
    current_snapshot_id: int | None = None
    """After this event; absent where the table has no snapshot."""
    operation: str | None = None
    """The current snapshot's, if this event made it the current one."""
    summary: dict[str, str] | None = None
    """The current snapshot's, if this event made it the current one."""
    schema_id: int | None = None
    """The current schema, if this event set it."""
    default_spec_id: int | None = None
    """If this event set it."""
    default_sort_order_id: int | None = None
    """If this event set it."""
    snapshots_added: _Snapshots = field(default_factory=list)
    """By a commit."""
    snapshots_removed: int = 0
    """How many, by a commit."""
    refs_set: _Refs = field(default_factory=list)
    """Branches and tags this event created or moved."""
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)
    actions: _Strings = field(default_factory=list)
    """The update actions that were asked for, in the words of the REST spec."""


@dataclass(slots=True, kw_only=True)
class TableRenamed(EventData):
    """`table` is what it is called now."""

    table: TabularName
    previous: PreviousName
    metadata_location: str


@dataclass(slots=True, kw_only=True)
class TableEnded(EventData):
    """A table that left the catalog's names, or whose files are gone."""

    table: TabularName
    metadata_location: str
    """Its last."""
    purge_requested: bool | None = None
    gc_enabled: bool | None = None
    """False where the table's property gc.enabled keeps its files although the client asked for them to go."""
    files_deleted: int | None = None
    files_left: _Strings = field(default_factory=list)
    """Files the table reached that stay, the first of `files-left-count`: they lie outside its places, or could not be read."""
    files_left_count: int | None = None


@dataclass(slots=True, kw_only=True)
class TableChanged(EventData):
    """Anything else that happened to a table; `change` is the fact as the log holds it."""

    table: TabularName
    metadata_location: str
    change: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ViewWritten(EventData):
    """A view that has a new metadata file: created, registered or committed to."""

    view: TabularName
    metadata_location: str
    previous_metadata_location: str | None = None
    location: str | None = None
    """Where the view lies, if this event set it."""
    current_version_id: int
    schema_id: int | None = None
    """The current version's, if this event changed the version."""
    properties_set: _StringsByName = field(default_factory=dict)
    properties_removed: _Strings = field(default_factory=list)
    actions: _Strings = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ViewRenamed(EventData):
    """`view` is what it is called now."""

    view: TabularName
    previous: PreviousName
    metadata_location: str


@dataclass(slots=True, kw_only=True)
class ViewEnded(EventData):
    """A view that left the catalog's names."""

    view: TabularName
    metadata_location: str
    """Its last."""


@dataclass(slots=True, kw_only=True)
class ViewChanged(EventData):
    """Anything else that happened to a view; `change` is the fact as the log holds it."""

    view: TabularName
    metadata_location: str
    change: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ProposalObject(EventData):
    """Something a proposed change is about, as it was called when the proposal was opened."""

    kind: str
    id: UUID
    """Of a thing that is still to be created, the id it would have had."""
    name: list[str]
    """Levels, outermost first, without the warehouse."""


@dataclass(slots=True, kw_only=True)
class ProposalEvent(EventData):
    """A change that an approval hook held back; the command itself is at /management/v1/proposals/<id>."""

    id: UUID
    warehouse: WarehouseName
    status: str
    """`open`, `approved`, `rejected`, `expired` or `stale`."""
    operation: str
    """The operationId of the REST spec."""
    objects: list[ProposalObject]
    hook: str
    reason: str
    """The hook's."""
    proposed_by: str
    opened_at: str
    expires_at: str
    """Until when it may be approved."""
    decided_by: str | None = None
    decision_reason: str | None = None


@dataclass(slots=True, kw_only=True)
class OtherEvent(EventData):
    """A thing that is neither warehouse, namespace, table, view nor proposal; `change` is the fact as the log holds it."""

    id: UUID
    name: _Strings = field(default_factory=list)
    """Where it has one, with those above it, outermost first."""
    change: dict[str, Any]


_TYPES: dict[str, type[EventData]] = {
    "table.created": TableWritten,
    "table.registered": TableWritten,
    "table.overwritten": TableWritten,
    "table.committed": TableWritten,
    "table.renamed": TableRenamed,
    "table.dropped": TableEnded,
    "table.unregistered": TableEnded,
    "table.purged": TableEnded,
    "view.created": ViewWritten,
    "view.registered": ViewWritten,
    "view.committed": ViewWritten,
    "view.renamed": ViewRenamed,
    "view.dropped": ViewEnded,
}
_OTHER_OF_NOUN: dict[str, type[EventData]] = {
    "warehouse": WarehouseEvent,
    "namespace": NamespaceEvent,
    "table": TableChanged,
    "view": ViewChanged,
    "proposal": ProposalEvent,
}


def data_type(topic: str) -> type[EventData]:
    """The type of the data that goes out for a topic of the log (`table.committed.v1`)."""
    noun, _, rest = topic.partition(".")
    return _TYPES.get(f"{noun}.{rest.rpartition('.')[0]}") or _OTHER_OF_NOUN.get(noun, OtherEvent)
