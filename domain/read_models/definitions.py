"""The columns of the read models. A column is defined here, in a migration, and in the fold that fills it
(docs/concepts/architecture.md, "Where a new thing goes").

Rows are tuples in the order of these columns; in the database `generation` comes before them. `icecore.write_rows` writes them by column
name, a rebuild copies them, and verification compares them.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints
from uuid import UUID

Row = tuple[Any, ...]
SmallInt = Annotated[int, "int2"]


class NameRow(NamedTuple):
    """The name and parent of an object, from one position to another; `to_position` None: it is current."""

    object_id: UUID
    from_position: int
    to_position: int | None
    parent_id: UUID
    kind: str
    name: str
    name_key: str


class ProjectRow(NamedTuple):
    """One version of a project."""

    project_id: UUID
    version: int
    position: int
    event_id: UUID
    name: str
    name_key: str
    status: str


class WarehouseRow(NamedTuple):
    """One version of a warehouse.

    config -- None: neither defaults nor overrides. format_versions -- None: all. expiration_seconds -- of the delete profile; None: hard.
    purge_heartbeat_seconds_max -- None: the default.
    """

    warehouse_id: UUID
    version: int
    position: int
    event_id: UUID
    project_id: UUID
    name: str
    name_key: str
    storage_profile: bytes
    secret_ref: UUID | None
    exact_names: bool
    config: bytes | None
    status: str
    protected: bool
    format_versions: bytes | None
    read_only: bool
    expiration_seconds: int | None
    purge_default: bool
    purge_heartbeat_seconds_max: int | None


class NamespaceRow(NamedTuple):
    """One version of a namespace. expires_at_ms, root_id -- of a soft-deleted namespace; otherwise None."""

    namespace_id: UUID
    version: int
    position: int
    event_id: UUID
    warehouse_id: UUID
    parent_id: UUID
    name: str
    name_key: str
    status: str
    location: str
    location_key: str
    properties: bytes
    protected: bool
    expires_at_ms: int | None
    root_id: UUID | None


class TableRow(NamedTuple):
    """One version of a table. expires_at_ms, purges -- of a soft-deleted table; otherwise None."""

    table_id: UUID
    version: int
    position: int
    event_id: UUID
    warehouse_id: UUID
    namespace_id: UUID
    name: str
    name_key: str
    status: str
    metadata_location: str
    locations: list[str]
    next_ordinal: int
    head: bytes
    protected: bool
    expires_at_ms: int | None
    purges: bool | None


class PartRow(NamedTuple):
    """A part of a table's document, from one version of its stream to another; `valid_to` None: it is current."""

    table_id: UUID
    kind: SmallInt
    ordinal: int
    valid_from: int
    valid_to: int | None
    snapshot_id: int | None
    body: bytes


class ViewRow(NamedTuple):
    """One version of a view. expires_at_ms -- of a soft-deleted view; otherwise None."""

    view_id: UUID
    version: int
    position: int
    event_id: UUID
    warehouse_id: UUID
    namespace_id: UUID
    name: str
    name_key: str
    status: str
    metadata_location: str
    locations: list[str]
    document: bytes
    protected: bool
    expires_at_ms: int | None


class SoftDeletedRow(NamedTuple):
    """A soft-deleted table, view or namespace, from the position of its drop to that of its undrop or expiry; `to_position` None: it still
    is. namespace_id -- its parent; of a namespace at the top, the warehouse.
    """

    object_id: UUID
    from_position: int
    to_position: int | None
    warehouse_id: UUID
    namespace_id: UUID
    kind: str
    name: str
    expires_at_ms: int


class TaskRow(NamedTuple):
    """The expiry or the purge of an object, from the event that made it necessary to the one that ended it; `to_position` None: it has not
    ended. Both events are in the stream of the object, which is the first column.

    task_id -- the id of the event that made it necessary. parent_task_id -- of a purge that follows an expiry. scheduled_for_ms -- of an
    expiry; a purge has none. status -- `scheduled` until it has ended, then `success` or `cancelled`.
    """

    object_id: UUID
    from_position: int
    to_position: int | None
    task_id: UUID
    warehouse_id: UUID
    queue: str
    kind: str
    namespace_id: UUID
    name: str
    parent_task_id: UUID | None
    scheduled_for_ms: int | None
    status: str


class TaskVersionRow(NamedTuple):
    """One version of a task's own stream: what was ordered for it, and its recorded attempts.

    event -- `scheduled`, `stopped`, `deletion-begun` or `attempt-failed`. scheduled_for_ms -- of the next attempt. begun -- whether files
    may have been deleted. attempts -- the last recorded attempt that failed; 0: none. started_at_ms -- of the attempt that the event is
    about; failed_at_ms, error -- if it failed.
    """

    task_id: UUID
    version: int
    position: int
    event_id: UUID
    warehouse_id: UUID
    event: str
    scheduled_for_ms: int | None
    begun: bool
    attempts: int
    started_at_ms: int | None
    failed_at_ms: int | None
    error: str | None


class ProposalRow(NamedTuple):
    proposal_id: UUID
    version: int
    position: int
    event_id: UUID
    warehouse_id: UUID
    status: str
    operation: str
    command_key: str
    hook: str
    reason: str
    expires_at_ms: int
    document: bytes


class TombstoneRow(NamedTuple):
    """Closed parts whose rows are not closed yet. `ordinals` is in Postgres's format of an int8multirange."""

    table_id: UUID
    kind: SmallInt
    valid_to: int
    ordinals: str


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A table of rows.

    key_columns -- how many of the first columns identify a row. The first column is the id of the object.
    """

    table: str
    row: type[NamedTuple]
    key_columns: int = 2

    @property
    def columns(self) -> tuple[str, ...]:
        return self.row._fields

    @property
    def types(self) -> list[str]:
        """The Postgres types of the columns."""
        return [_POSTGRES_TYPES[_without_none(hint)] for hint in get_type_hints(self.row, include_extras=True).values()]


_POSTGRES_TYPES: dict[Any, str] = {
    UUID: "uuid", int: "int8", SmallInt: "int2", bool: "bool", str: "text", list[str]: "text[]", bytes: "bytea"
}  # fmt: skip


def _without_none(hint: Any) -> Any:
    given = [kind for kind in get_args(hint) if kind is not type(None)]
    return given[0] if type(None) in get_args(hint) else hint


READ_MODELS = (
    ReadModel("names", NameRow),
    ReadModel("warehouses", WarehouseRow),
    ReadModel("namespaces", NamespaceRow),
    ReadModel("tables", TableRow),
    ReadModel("table_parts", PartRow, key_columns=3),
    ReadModel("views", ViewRow),
    ReadModel("soft_deleted", SoftDeletedRow),
    ReadModel("proposals", ProposalRow),
    ReadModel("projects", ProjectRow),
    ReadModel("tasks", TaskRow),
    ReadModel("task_versions", TaskVersionRow),
)

# Closed parts whose rows are not closed yet. The table is not folded from the log alone, but its effect on parts must agree with the log.
PART_TOMBSTONES = ReadModel("part_tombstones", TombstoneRow, key_columns=3)
