"""Rows of tables: one row for each version, and parts that are valid from one version to another."""

from collections.abc import Sequence
from operator import is_

from ..documents import TABLE_KINDS, Part, PartsDelta, table_head
from ..events import Event, TableCommitted, TableCreated, TableOverwritten, TableRegistered, TableRenamed, TableUndropped
from ..table import TableState
from .definitions import PartRow, TableRow
from .rows import ClosedParts, Rows

KIND_NUMBERS = {kind: number for number, kind in enumerate(TABLE_KINDS, start=1)}
# Kinds whose rows have a snapshot id, for loads of referenced snapshots only.
_WITH_SNAPSHOT_ID = frozenset({"snapshots", "refs"})


def add_rows(rows: Rows, position: int, before: TableState | None, event: Event, after: TableState) -> None:
    """Adds the rows of the event at `position`: that of the version, the parts that it opens and closes, and the name if it changed."""
    rows.tables.append(
        TableRow(
            table_id=after.id,
            version=after.version,
            position=position,
            event_id=after.event_id,
            warehouse_id=after.warehouse_id,
            namespace_id=after.namespace_id,
            name=after.name,
            name_key=after.name_key,
            status=after.status,
            metadata_location=after.metadata_location,
            locations=list(after.location_keys),
            next_ordinal=after.document.next_ordinal,
            head=table_head(after.document),
            protected=after.protected,
            expires_at_ms=after.expires_at_ms,
            purges=after.purges if after.status == "soft-deleted" else None,
        )
    )
    match event:
        case TableCreated() | TableRegistered() | TableUndropped():
            rows.open_name(position, after.id, after.namespace_id, "table", after.name, after.name_key)
        case TableRenamed():
            rows.close_name(position, after.id)
            rows.open_name(position, after.id, after.namespace_id, "table", after.name, after.name_key)
        case TableCommitted() | TableOverwritten():
            pass
        case _:
            if before is not None and before.status == "live" and after.status != "live":
                rows.close_name(position, after.id)
    if before is not None and before.status != after.status:
        rows.open_or_close_soft_deleted(position, "table", after.namespace_id, before, after)
        rows.open_or_close_task(position, "table", before, event, after)
    if isinstance(event, TableCommitted):
        # The event's delta contains the changes of the parts. Those added are the last ones.
        for kind, delta in event.delta["parts"].items():
            parts = after.document.parts[kind]
            _add_parts(rows, after, kind, parts[len(parts) - len(delta["added"]) :], delta["removed"])
    else:
        for kind, change in _changes(before, after).items():
            _add_parts(rows, after, kind, change.added, change.removed)


def _add_parts(rows: Rows, after: TableState, kind: str, added: Sequence[Part], removed: Sequence[int]) -> None:
    table_id, version, kind_number = after.id, after.version, KIND_NUMBERS[kind]
    if removed:
        rows.parts_closed.append(ClosedParts(table_id, kind_number, version, list(removed)))
    with_snapshot_id = kind in _WITH_SNAPSHOT_ID
    for part in added:
        snapshot_id = part.snapshot_id if with_snapshot_id else None
        rows.table_parts.append(PartRow(table_id, kind_number, part.ordinal, version, None, snapshot_id, part.body))


def _changes(before: TableState | None, after: TableState) -> dict[str, PartsDelta]:
    """The changes of the parts, found by ordinals: they ascend, and each version adds greater ones than all before."""
    changes: dict[str, PartsDelta] = {}
    for kind, parts in after.document.parts.items():
        old = before.document.parts[kind] if before is not None else ()
        if parts is old:
            continue
        first_new = before.document.next_ordinal if before is not None else 0
        kept = {part.ordinal for part in parts if part.ordinal < first_new} if len(parts) < len(old) or _differ(old, parts) else None
        removed = () if kept is None else tuple(part.ordinal for part in old if part.ordinal not in kept)
        changes[kind] = PartsDelta(_since(parts, first_new), removed)
    return changes


def _differ(old: tuple[Part, ...], parts: tuple[Part, ...]) -> bool:
    return not all(map(is_, old, parts))


def _since(parts: tuple[Part, ...], first_new: int) -> tuple[Part, ...]:
    start = len(parts)
    while start > 0 and parts[start - 1].ordinal >= first_new:
        start -= 1
    return parts[start:]
