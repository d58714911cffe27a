"""Rows that events add to the read models. Folds collect them; they are then written, copied or compared."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ..documents import Json
from ..events import Event, TablePurgeCancelled
from ..namespace import NamespaceState
from ..table import TableState
from ..task import EXPIRATION, PURGE
from ..view import ViewState
from .definitions import (
    READ_MODELS,
    NameRow,
    NamespaceRow,
    PartRow,
    ProjectRow,
    ProposalRow,
    Row,
    SmallInt,
    SoftDeletedRow,
    TableRow,
    TaskRow,
    TaskVersionRow,
    TombstoneRow,
    ViewRow,
    WarehouseRow,
)

# For one kind of one table at one version. More parts are closed by one tombstone, outside the append lock.
PARTS_CLOSED_INLINE_MAX = 256
# For one command. More parts are written as columns, which costs Postgres less than a JSON object for each row.
PARTS_AS_ROWS_MAX = 64

_BYTES_COLUMNS = {
    model.row: [name for name, kind in zip(model.columns, model.types, strict=True) if kind == "bytea"] for model in READ_MODELS
}


class ClosedName(NamedTuple):
    """The object does not have its name from this position on."""

    position: int
    object_id: UUID


class ClosedSoftDeleted(NamedTuple):
    """The object was undropped or has expired at this position."""

    position: int
    object_id: UUID


class EndedTask(NamedTuple):
    """The task of the object ended at this position. status -- `success` or `cancelled`."""

    position: int
    object_id: UUID
    status: str


class ClosedParts(NamedTuple):
    table_id: UUID
    kind: SmallInt
    valid_to: int
    ordinals: list[int]


@dataclass(slots=True)
class Rows:
    """The rows that one command or one stream adds to the read models, in lists named like their tables.

    Positions are those of the log; while these are unknown, they are the numbers of the command's events, from 1. A row that is closed
    stays open in its list, and its end is in `names_closed`, `soft_deleted_closed`, `tasks_ended` or `parts_closed`.
    """

    names: list[NameRow] = field(default_factory=list)
    names_closed: list[ClosedName] = field(default_factory=list)
    warehouses: list[WarehouseRow] = field(default_factory=list)
    namespaces: list[NamespaceRow] = field(default_factory=list)
    tables: list[TableRow] = field(default_factory=list)
    table_parts: list[PartRow] = field(default_factory=list)
    parts_closed: list[ClosedParts] = field(default_factory=list)
    views: list[ViewRow] = field(default_factory=list)
    soft_deleted: list[SoftDeletedRow] = field(default_factory=list)
    soft_deleted_closed: list[ClosedSoftDeleted] = field(default_factory=list)
    proposals: list[ProposalRow] = field(default_factory=list)
    projects: list[ProjectRow] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    tasks_ended: list[EndedTask] = field(default_factory=list)
    task_versions: list[TaskVersionRow] = field(default_factory=list)

    def open_name(self, position: int, object_id: UUID, parent_id: UUID, kind: str, name: str, name_key: str) -> None:
        self.names.append(NameRow(object_id, position, None, parent_id, kind, name, name_key))

    def close_name(self, position: int, object_id: UUID) -> None:
        self.names_closed.append(ClosedName(position, object_id))

    def open_or_close_soft_deleted(
        self,
        position: int,
        kind: str,
        parent_id: UUID,
        before: TableState | ViewState | NamespaceState | None,
        after: TableState | ViewState | NamespaceState,
    ) -> None:
        """Begins or ends the row of an object that is soft-deleted after, or was before."""
        if before is not None and before.status == "soft-deleted" and after.status != "soft-deleted":
            self.soft_deleted_closed.append(ClosedSoftDeleted(position, after.id))
        elif after.status == "soft-deleted":
            assert after.expires_at_ms is not None, "what is soft-deleted expires"
            row = SoftDeletedRow(after.id, position, None, after.warehouse_id, parent_id, kind, after.name, after.expires_at_ms)
            self.soft_deleted.append(row)

    def open_or_close_task(
        self, position: int, kind: str, before: TableState | ViewState | None, event: Event, after: TableState | ViewState
    ) -> None:
        """Ends the task that the object had before, and begins the one that it has after. Namespaces have none: each expires once all in it
        has.
        """
        queue_before, queue = _queue(before), _queue(after)
        if queue_before == queue:
            return
        parent_task_id = None
        if before is not None and queue_before is not None:
            cancelled = after.status == "live" or isinstance(event, TablePurgeCancelled)
            self.tasks_ended.append(EndedTask(position, after.id, "cancelled" if cancelled else "success"))
            # While it is soft-deleted, an object has no other event than the drop.
            parent_task_id = before.event_id
        if queue is not None:
            named = (kind, after.namespace_id, after.name)
            task = (after.event_id, after.warehouse_id, queue, *named, parent_task_id, after.expires_at_ms, "scheduled")
            self.tasks.append(TaskRow(after.id, position, None, *task))

    @property
    def count(self) -> int:
        """Number of rows added. Closed rows were counted when they were opened."""
        return sum(len(getattr(self, model.table)) for model in READ_MODELS)

    def names_with_ends(self) -> list[NameRow]:
        """The names, each with the position at which it is closed. An event that closes and opens a name closes the earlier one."""
        return _with_ends(self.names, self.names_closed)

    def soft_deleted_with_ends(self) -> list[SoftDeletedRow]:
        """The rows of what is or was soft-deleted, each with the position at which that ended."""
        return _with_ends(self.soft_deleted, self.soft_deleted_closed)

    def tasks_with_ends(self) -> list[TaskRow]:
        """The rows of tasks, each with the position at which it ended and its status then."""
        if not self.tasks_ended:
            return self.tasks
        ended = _with_ends(self.tasks, self.tasks_ended)
        statuses = {(end.object_id, end.position): end.status for end in self.tasks_ended}
        return [row if row.to_position is None else row._replace(status=statuses[row.object_id, row.to_position]) for row in ended]

    def finished(self) -> dict[str, Sequence[Row]]:
        """The rows of a whole stream by table, after all its events are folded."""
        ends = {(kind, ordinal): valid_to for _, kind, valid_to, ordinals in self.parts_closed for ordinal in ordinals}
        # Ordered by key, like the rows that they are compared with.
        parts = [
            part if (end := ends.get((part.kind, part.ordinal))) is None else part._replace(valid_to=end)
            for part in sorted(self.table_parts, key=attrgetter("kind", "ordinal"))
        ]
        return {model.table: getattr(self, model.table) for model in READ_MODELS} | {
            "names": self.names_with_ends(),
            "soft_deleted": self.soft_deleted_with_ends(),
            "tasks": self.tasks_with_ends(),
            "table_parts": parts,
        }

    def to_json(self, blobs: list[bytes]) -> Json:
        """The rows as JSON for `append`. Bytes are appended to `blobs`; the JSON has their index, from 1.

        There are two compact forms: `part_tombstones` for many closed parts, and `part_columns` for many new ones (table_id, kind,
        valid_from, ordinals, snapshot_ids, body: the index of the first body, which the others follow).
        """
        few = [closed for closed in self.parts_closed if len(closed.ordinals) <= PARTS_CLOSED_INLINE_MAX]
        many = [closed for closed in self.parts_closed if len(closed.ordinals) > PARTS_CLOSED_INLINE_MAX]
        written: dict[str, Sequence[Any]] = {model.table: getattr(self, model.table) for model in READ_MODELS}
        written |= {
            "names": self.names_with_ends(),
            "names_closed": self.names_closed,
            "soft_deleted": self.soft_deleted_with_ends(),
            "soft_deleted_closed": self.soft_deleted_closed,
            "tasks": self.tasks_with_ends(),
            "tasks_ended": self.tasks_ended,
            "parts_closed": few,
            "part_tombstones": [TombstoneRow(table_id, kind, at, multirange(ordinals)) for table_id, kind, at, ordinals in many],
        }
        as_columns = len(self.table_parts) > PARTS_AS_ROWS_MAX
        if as_columns:
            del written["table_parts"]
        command = {name: [_by_name(row, blobs) for row in rows] for name, rows in written.items() if rows}
        return {**command, "part_columns": _columns(self.table_parts, blobs)} if as_columns else command


def _by_name(row: Any, blobs: list[bytes]) -> Json:
    named: Json = row._asdict()
    for column in _BYTES_COLUMNS.get(type(row), ()):
        if named[column] is not None:
            blobs.append(named[column])
            named[column] = len(blobs)
    return named


def _columns(parts: list[PartRow], blobs: list[bytes]) -> list[Json]:
    columns: list[Json] = []
    for (table_id, kind, valid_from), group in groupby(parts, attrgetter("table_id", "kind", "valid_from")):
        members = list(group)
        columns.append(
            {
                "table_id": table_id,
                "kind": kind,
                "valid_from": valid_from,
                "ordinals": [part.ordinal for part in members],
                "snapshot_ids": [part.snapshot_id for part in members],
                "body": len(blobs) + 1,
            }
        )
        blobs += [part.body for part in members]
    return columns


def _queue(state: TableState | ViewState | None) -> str | None:
    """The queue of the task that the object has in this state."""
    match None if state is None else state.status:
        case "soft-deleted":
            return EXPIRATION
        case "purging":
            return PURGE
    return None


_Ending = TypeVar("_Ending", NameRow, SoftDeletedRow, TaskRow)


def _with_ends(rows: list[_Ending], closed: Sequence[ClosedName | ClosedSoftDeleted | EndedTask]) -> list[_Ending]:
    """The rows, each with the first position after its beginning at which its object was closed."""
    if not closed:
        return rows
    positions: dict[UUID, list[int]] = defaultdict(list)
    for position, object_id, *_ in closed:
        positions[object_id].append(position)
    return [row._replace(to_position=_first_after(positions[row.object_id], row.from_position)) for row in rows]


def _first_after(positions: Sequence[int], position: int) -> int | None:
    """The first of ascending positions that is greater than `position`."""
    found = bisect_right(positions, position)
    return positions[found] if found < len(positions) else None


def multirange(ordinals: Sequence[int]) -> str:
    """Ordinals as Postgres writes an int8multirange: `{[0,3),[7,8)}`."""
    bounds: list[list[int]] = []
    for ordinal in sorted(ordinals):
        if bounds and bounds[-1][1] == ordinal:
            bounds[-1][1] = ordinal + 1
        else:
            bounds.append([ordinal, ordinal + 1])
    return "{" + ",".join(f"[{start},{end})" for start, end in bounds) + "}"
