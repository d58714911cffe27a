"""The events of the log: one class each with its versioned topic, and their encoding.

An event contains all that the rows and claims of its stream need, so that one stream is folded without looking at another: `name_key`
is the form in which names are compared, `location_key` the form in which locations are claimed (None: the location did not change),
`path_keys` the same for locations of path properties outside the location, and for a registration also for files outside.

The stored data of an event is never rewritten. When an event's shape changes, its topic gets the next version, the class follows, and an
upcaster from the version before is registered here. One golden file per version (tests/unit/golden_events) keeps old events readable. A
new optional field has the default None instead, and is omitted from the stored data if it is None.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar, dataclass_transform
from uuid import UUID

from isal import isal_zlib

from .documents import Json
from .json_in_pieces import dumps_in_pieces, loads_in_pieces

DATA_BYTES_PLAIN_MAX = 64 * 1024
"""Larger data is stored as one zlib stream: it is written and hashed under the log's lock (docs/decisions/0004)."""
# Compresses 6.7 MB to 0.9 MB in 8 ms (docs/decisions/0016).
_DEFLATE_LEVEL = 1
# The largest list of an event: the snapshots of a table that was registered.
_LARGEST_LIST = ("metadata", "snapshots")
# The first byte of a zlib stream; JSON never begins with it.
_DEFLATED = b"\x78"
# How many inflated bytes are counted at a time, and from how many stored bytes: the rest of the input is copied each time.
_INFLATED_BYTES = 256 * 1024
_STORED_BYTES = 64 * 1024


class Event:
    """A fact about one stream. TOPIC is its permanent type and version, independent of the class's name and module."""

    TOPIC: ClassVar[str]

    def encode(self) -> bytes:
        """The stored data: a JSON object whose member names are in kebab case, as in the Iceberg specs; a large one is deflated."""
        # Not dataclasses.asdict, which would copy the documents inside.
        members = {
            member: value
            for f, (member, _, optional) in zip(fields(self), _MEMBERS[self.TOPIC], strict=True)  # type: ignore[arg-type]
            if (value := getattr(self, f.name)) is not None or not optional
        }
        pieces = [*dumps_in_pieces(members, _LARGEST_LIST)]
        if sum(map(len, pieces)) <= DATA_BYTES_PLAIN_MAX:
            return b"".join(pieces)
        deflate = isal_zlib.compressobj(_DEFLATE_LEVEL)
        return b"".join([*map(deflate.compress, pieces), deflate.flush()])


_EVENTS: dict[str, type[Event]] = {}
# By topic, for each field in order: its member name, whether it is an id, and whether it is optional.
# Computed once, not for every event of a rebuild.
_MEMBERS: dict[str, tuple[tuple[str, bool, bool], ...]] = {}
_UPCASTERS: dict[str, tuple[str, Callable[[Json], Json]]] = {}


@dataclass_transform(frozen_default=True)
def _event(topic: str) -> Callable[[type[Event]], type[Event]]:
    def declare(cls: type[Event]) -> type[Event]:
        assert topic not in _EVENTS, f"two events share the topic {topic}"
        cls.TOPIC = topic
        declared = dataclass(frozen=True, slots=False)(cls)
        _EVENTS[topic] = declared
        _MEMBERS[topic] = tuple((_member(f.name), f.type in (UUID, UUID | None), f.default is None) for f in fields(declared))  # type: ignore[arg-type]
        return declared

    return declare


def upcaster(old_topic: str, new_topic: str) -> Callable[[Callable[[Json], Json]], Callable[[Json], Json]]:
    """Registers the function that turns data of `old_topic` into that of `new_topic`."""

    def register(function: Callable[[Json], Json]) -> Callable[[Json], Json]:
        assert old_topic not in (*_UPCASTERS, *_EVENTS), f"{old_topic} has an upcaster already"
        _UPCASTERS[old_topic] = (new_topic, function)
        return function

    return register


def topics() -> tuple[str, ...]:
    """Every topic that a log may contain: the current ones and those that are upcast."""
    return (*_EVENTS, *_UPCASTERS)


def decode(topic: str, data: bytes) -> Event:
    """The event in a row of the log, upcast to its newest version.

    Raises LookupError for an unknown topic, which a newer program wrote.
    """
    members: Json = loads_in_pieces(data_json(data), _LARGEST_LIST)
    while topic in _UPCASTERS:
        topic, upcast = _UPCASTERS[topic]
        members = upcast(members)
    try:
        cls = _EVENTS[topic]
    except KeyError:
        raise LookupError(f"unknown event topic {topic!r}: written by a newer version?") from None
    return cls(*[_value(members, member, is_id, optional) for member, is_id, optional in _MEMBERS[topic]])


def is_large(data: bytes) -> bool:
    """Whether reading stored data takes long enough to be done in a thread."""
    return len(data) > DATA_BYTES_PLAIN_MAX or data.startswith(_DEFLATED)


def data_size(data: bytes) -> int:
    """The size of its JSON in bytes, without inflating it all at once."""
    if not data.startswith(_DEFLATED):
        return len(data)
    inflate, size = zlib.decompressobj(), 0
    for start in range(0, len(data), _STORED_BYTES):
        left = data[start : start + _STORED_BYTES]
        while left:
            size += len(inflate.decompress(left, _INFLATED_BYTES))
            left = inflate.unconsumed_tail
    return size + len(inflate.flush())


def data_json(data: bytes) -> bytes:
    """The JSON object of stored data."""
    return zlib.decompress(data) if data.startswith(_DEFLATED) else data


def _member(name: str) -> str:
    return name.replace("_", "-")


def _value(data: Json, member: str, is_id: bool, optional: bool) -> object:
    value = data.get(member) if optional else data[member]
    return UUID(value) if is_id and value is not None else value


@_event("project.created.v1")
class ProjectCreated(Event):
    name: str
    name_key: str


@_event("project.renamed.v1")
class ProjectRenamed(Event):
    """The first event of the default project may be this, because that exists without an event."""

    name: str
    name_key: str


@_event("project.deleted.v1")
class ProjectDeleted(Event):
    """The project contained no warehouse. Its name is free, its id is not."""


@_event("warehouse.created.v1")
class WarehouseCreated(Event):
    """`storage_profile` has no secrets; `exact_names`: names are compared exactly, not case-insensitively."""

    name: str
    name_key: str
    storage_profile: Json
    secret_ref: UUID | None
    exact_names: bool


@_event("warehouse.config-changed.v1")
class WarehouseConfigChanged(Event):
    """Changes of the `defaults` and `overrides` of /v1/config. Removals existed before; updates are added or replaced."""

    defaults_updates: dict[str, str]
    defaults_removals: list[str]
    overrides_updates: dict[str, str]
    overrides_removals: list[str]


@_event("warehouse.renamed.v1")
class WarehouseRenamed(Event):
    name: str
    name_key: str


@_event("warehouse.activated.v1")
class WarehouseActivated(Event):
    """Clients can use the warehouse again."""


@_event("warehouse.deactivated.v1")
class WarehouseDeactivated(Event):
    """To clients the warehouse does not exist, until it is activated."""


@_event("warehouse.protection-changed.v1")
class WarehouseProtectionChanged(Event):
    """`protected`: the warehouse is deleted only with `force`."""

    protected: bool


@_event("warehouse.format-version-policy-changed.v1")
class WarehouseFormatVersionPolicyChanged(Event):
    """The format versions of new and upgraded tables; `default`: that of a table whose request names none."""

    allowed: list[int]
    default: int | None


@_event("warehouse.read-only-changed.v1")
class WarehouseReadOnlyChanged(Event):
    """`read_only`: changes in the warehouse are refused."""

    read_only: bool


@_event("warehouse.storage-profile-changed.v1")
class WarehouseStorageProfileChanged(Event):
    """`secret_ref` refers to the credential in the secret store, which contains it; None: the store needs none."""

    storage_profile: Json
    secret_ref: UUID | None


@_event("warehouse.storage-credential-changed.v1")
class WarehouseStorageCredentialChanged(Event):
    """`secret_ref` as in WarehouseStorageProfileChanged."""

    secret_ref: UUID | None


@_event("warehouse.delete-profile-changed.v1")
class WarehouseDeleteProfileChanged(Event):
    """What a drop of a table or view does. `type`: `hard` or `soft`; `expiration_seconds`: if soft, from the drop to the expiry."""

    type: str
    expiration_seconds: int | None = None


@_event("warehouse.purge-default-changed.v1")
class WarehousePurgeDefaultChanged(Event):
    """`purge`: a drop of a table that does not say whether its files are to be deleted requests it."""

    purge: bool


@_event("warehouse.namespace-moved.v1")
class WarehouseNamespaceMoved(Event):
    """It follows NamespaceMoved in the same command. A command that was decided on earlier paths is not appended after it."""

    namespace_id: UUID


@_event("warehouse.task-queue-config-changed.v1")
class WarehouseTaskQueueConfigChanged(Event):
    """The configuration of a queue of tasks. `heartbeat_seconds_max`: an attempt without a heartbeat for longer is ended and retried; None:
    the default of the queue.
    """

    queue: str
    heartbeat_seconds_max: int | None = None


@_event("warehouse.deleted.v1")
class WarehouseDeleted(Event):
    """The warehouse was empty. Its name is free."""


@_event("namespace.created.v1")
class NamespaceCreated(Event):
    """`parent_id` is the namespace above, or the warehouse at the top; `name` is the last level; `properties` include `location`."""

    parent_id: UUID
    name: str
    name_key: str
    location_key: str
    properties: dict[str, str]


@_event("namespace.properties-changed.v1")
class NamespacePropertiesChanged(Event):
    """`removals` existed before; `updates` are added or replaced."""

    updates: dict[str, str]
    removals: list[str]


@_event("namespace.protection-changed.v1")
class NamespaceProtectionChanged(Event):
    """`protected`: the namespace is dropped only with `force`."""

    protected: bool


@_event("namespace.moved.v1")
class NamespaceMoved(Event):
    """The namespace, with all that it contains, has another parent, another name, or both. Locations stay. `parent_id` as in
    NamespaceCreated.
    """

    parent_id: UUID
    name: str
    name_key: str


@_event("namespace.dropped.v1")
class NamespaceDropped(Event):
    """The namespace was empty, or everything in it was dropped by the same command.

    `root_id`: the namespace whose recursive drop this is part of, which may be this one; None: the drop was not recursive.
    `expires_at_ms`: the namespace is soft-deleted with its tree, until it is undropped or expires; None: the drop is final.
    """

    expires_at_ms: int | None = None
    root_id: UUID | None = None


@_event("namespace.undropped.v1")
class NamespaceUndropped(Event):
    """The soft-deleted namespace has its name again. What was dropped with it is undropped by the same command."""


@_event("namespace.expired.v1")
class NamespaceExpired(Event):
    """The drop of a soft-deleted namespace is final. Nothing soft-deleted is left in it."""


@_event("table.created.v1")
class TableCreated(Event):
    """`metadata` is the first document; `staged`: the commit that completed a staged create created the table."""

    namespace_id: UUID
    name: str
    name_key: str
    location_key: str
    metadata_location: str
    metadata: Json
    staged: bool
    path_keys: list[str] | None = None


@_event("table.registered.v1")
class TableRegistered(Event):
    """`metadata` is the document of the registered file."""

    namespace_id: UUID
    name: str
    name_key: str
    location_key: str
    metadata_location: str
    metadata: Json
    path_keys: list[str] | None = None


@_event("table.overwritten.v1")
class TableOverwritten(Event):
    """A registration that overwrote an existing table; `metadata` is the document of the registered file."""

    location_key: str
    metadata_location: str
    metadata: Json
    path_keys: list[str] | None = None


@_event("table.committed.v1")
class TableCommitted(Event):
    """`delta` is the change from the version before (domain/documents.py); `actions` are those of the request's updates."""

    metadata_location: str
    location_key: str | None
    delta: Json
    actions: list[str]
    path_keys: list[str] | None = None


@_event("table.renamed.v1")
class TableRenamed(Event):
    namespace_id: UUID
    name: str
    name_key: str


@_event("table.protection-changed.v1")
class TableProtectionChanged(Event):
    """`protected`: the table is dropped and unregistered only with `force`."""

    protected: bool


@_event("table.dropped.v1")
class TableDropped(Event):
    """`purge_requested`: the files are to be deleted. A job deletes them after this event, and ends in TablePurged.

    `gc_enabled`: False if the table's property gc.enabled keeps the files although a purge was requested; its location is free then.
    `expires_at_ms`: the table is soft-deleted. It can be undropped until it expires, its location is not free, and a purge waits for that;
    None: the drop is final.
    """

    purge_requested: bool
    gc_enabled: bool | None = None
    expires_at_ms: int | None = None


@_event("table.undropped.v1")
class TableUndropped(Event):
    """The soft-deleted table has its name again. A requested purge is taken back."""


@_event("table.expired.v1")
class TableExpired(Event):
    """The drop of a soft-deleted table is final. Its files are deleted after this event if the drop requested that."""


@_event("table.unregistered.v1")
class TableUnregistered(Event):
    """The table was removed from the catalog; its files stay, and its location is free."""


@_event("table.purged.v1")
class TablePurged(Event):
    """The files that the table referred to in its own locations are deleted, and its locations are free.

    `files_left` are the first of `files_left_count` files that were kept, because they are elsewhere or could not be read.
    """

    files_deleted: int
    files_left: list[str] | None = None
    files_left_count: int | None = None


@_event("table.purge-cancelled.v1")
class TablePurgeCancelled(Event):
    """The purge was cancelled before it deleted a file: all files stay, and the table's locations are free."""


@_event("view.created.v1")
class ViewCreated(Event):
    namespace_id: UUID
    name: str
    name_key: str
    location_key: str
    metadata_location: str
    metadata: Json
    path_keys: list[str] | None = None


@_event("view.registered.v1")
class ViewRegistered(Event):
    namespace_id: UUID
    name: str
    name_key: str
    location_key: str
    metadata_location: str
    metadata: Json
    path_keys: list[str] | None = None


@_event("view.committed.v1")
class ViewCommitted(Event):
    metadata_location: str
    location_key: str | None
    delta: Json
    actions: list[str]
    path_keys: list[str] | None = None


@_event("view.renamed.v1")
class ViewRenamed(Event):
    namespace_id: UUID
    name: str
    name_key: str


@_event("view.protection-changed.v1")
class ViewProtectionChanged(Event):
    """`protected`: the view is dropped only with `force`."""

    protected: bool


@_event("view.dropped.v1")
class ViewDropped(Event):
    """The view was removed from the catalog; its location is free.

    `expires_at_ms`: the view is soft-deleted. It can be undropped until it expires, and its location is not free; None: the drop is final.
    """

    expires_at_ms: int | None = None


@_event("view.undropped.v1")
class ViewUndropped(Event):
    """The soft-deleted view has its name again."""


@_event("view.expired.v1")
class ViewExpired(Event):
    """The drop of a soft-deleted view is final."""


@_event("task.scheduled.v1")
class TaskScheduled(Event):
    """The next attempt of a task begins at this moment. The stream of a task has the id of the event that made the task necessary.

    `queue`, `object_kind` and `object_id`, here and in the other events of tasks: what the task does, and for which object.
    """

    queue: str
    object_kind: str
    object_id: UUID
    scheduled_for_ms: int


@_event("task.stopped.v1")
class TaskStopped(Event):
    """The current attempt is ended; the task is retried."""

    queue: str
    object_kind: str
    object_id: UUID


@_event("task.deletion-begun.v1")
class TaskDeletionBegun(Event):
    """The attempt of a purge deletes files from here on, so the purge cannot be cancelled any more."""

    queue: str
    object_kind: str
    object_id: UUID
    attempt: int
    started_at_ms: int


@_event("task.attempt-failed.v1")
class TaskAttemptFailed(Event):
    """An attempt failed; the next one begins at `retry_at_ms`. Recorded are the attempts 1, 2, 4, 8 and so on, and not those between."""

    queue: str
    object_kind: str
    object_id: UUID
    attempt: int
    started_at_ms: int
    failed_at_ms: int
    retry_at_ms: int
    error: str


TaskFact = TaskScheduled | TaskStopped | TaskDeletionBegun | TaskAttemptFailed
"""The events of a task's own stream."""


@_event("maintenance.planned.v1")
class MaintenancePlanned(Event):
    """A procedure of Iceberg is to run on a table, or would have: then `shadow` is true. The stream is that of one run.

    `reason`: why, for readers. `estimate`: what it is expected to do (domain/maintenance.py, MEASURES).
    """

    table_id: UUID
    procedure: str
    reason: str
    estimate: Json
    shadow: bool


@_event("maintenance.finished.v1")
class MaintenanceFinished(Event):
    """What the procedure did.

    `outcome`: `success`, `conflict` (concurrent commits won), `failed`, or `unavailable` (the catalog did not respond).
    """

    table_id: UUID
    procedure: str
    outcome: str
    measured: Json
    attempts: int
    duration_ms: int
    error: str | None = None


MaintenanceEvent = MaintenancePlanned | MaintenanceFinished
"""The events of a maintenance run."""


@_event("proposal.opened.v1")
class ProposalOpened(Event):
    """A hook held a change for approval. It contains the command, which is executed once approved, its objects, and when the approval
    expires.

    `command` has the fields of the operation's command (domain/stored_commands.py). `command_key` is the same for all requests for the same
    change. `objects` have kind, id and name (levels, outermost first), event-id (the newest event of the object when the change was held;
    None: it was to be created) and parent-id (its future parent). The oldest stored events lack these ids.
    """

    operation: str
    command_key: str
    command: Json
    actor: str
    hook: str
    reason: str
    opened_at_ms: int
    expires_at_ms: int
    objects: list[Json]


@_event("proposal.approved.v1")
class ProposalApproved(Event):
    """It follows the events of the change, in the same command."""

    by: str


@_event("proposal.rejected.v1")
class ProposalRejected(Event):
    by: str
    reason: str


@_event("proposal.expired.v1")
class ProposalExpired(Event):
    """The proposal was not decided in time."""


@_event("proposal.stale.v1")
class ProposalStale(Event):
    """An object of the change has been changed or dropped since, so the proposal can no longer be approved."""
