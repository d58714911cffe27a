"""The rows events fold to, before they know their positions: the shape `icecore.write_rows` takes and rebuild stamps.

Each row opens with the number of its event: in its command (from 1) when it is written inline, of its stream's events when a
rebuild or a verification stamps it. Columns stand in the order of the tables in migrations/0001_baseline.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from uuid import UUID

from domain.documents import Json

Row = tuple[Any, ...]

# Of one kind of one table at one version: what goes beyond is written as one tombstone, and closed outside the append lock.
PARTS_CLOSED_INLINE_MAX = 256
# Of one command: more parts than these are written as columns, which cost Postgres less than a row of JSON each.
PARTS_AS_ROWS_MAX = 64


@dataclass(slots=True)
class Rows:
    """What one command, or one stream, adds to the read models.

    names_closed -- (event, object id)
    names        -- (event, object id, parent id, kind, name, name key)
    tables       -- (event, table id, version, event id, warehouse id, namespace id, name, name key, status, metadata location,
                    location keys, next ordinal, head)
    parts_closed -- (table id, kind, valid to, ordinals)
    parts        -- (table id, kind, ordinal, valid from, snapshot id, body)
    views        -- (event, view id, version, event id, warehouse id, namespace id, name, name key, status, metadata location,
                    location keys, document)
    namespaces   -- (event, namespace id, version, event id, warehouse id, parent id, name, name key, status, properties)
    warehouses   -- (event, warehouse id, version, event id, project id, name, name key, storage profile, secret ref, exact names)
    proposals    -- (event, proposal id, version, event id, warehouse id, status, operation, command key, hook, reason, expires at,
                    document)
    """

    names_closed: list[Row] = field(default_factory=list)
    names: list[Row] = field(default_factory=list)
    tables: list[Row] = field(default_factory=list)
    parts_closed: list[Row] = field(default_factory=list)
    parts: list[Row] = field(default_factory=list)
    views: list[Row] = field(default_factory=list)
    namespaces: list[Row] = field(default_factory=list)
    warehouses: list[Row] = field(default_factory=list)
    proposals: list[Row] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many rows are added; what is closed was counted when it was opened."""
        return sum(len(getattr(self, name)) for name in _TABLES if not name.endswith("_closed"))

    def to_json(self, blobs: list[bytes]) -> Json:
        """The rows for `append`: bytes go to `blobs` and leave their index, from 1.

        Two forms are for what is many: `part_tombstones` (table id, kind, valid to, ordinals as a multirange) and `part_columns`
        (table id, kind, valid from, ordinals, snapshot ids, the index of the first body; the others follow it).
        """
        written: Json = {}
        for name in _TABLES:
            rows: list[Row] = getattr(self, name)
            if name == "parts_closed":
                few = [row for row in rows if len(row[3]) <= PARTS_CLOSED_INLINE_MAX]
                if len(few) < len(rows):
                    written["part_tombstones"] = [(*row[:3], multirange(row[3])) for row in rows if len(row[3]) > PARTS_CLOSED_INLINE_MAX]
                rows = few
            if name == "parts" and len(rows) > PARTS_AS_ROWS_MAX:
                written["part_columns"] = _columns(rows, blobs)
            elif rows:
                written[name] = [_without_bytes(row, blobs) for row in rows]
        return written


_TABLES = ("names_closed", "names", "tables", "parts_closed", "parts", "views", "namespaces", "warehouses", "proposals")


def _without_bytes(row: Row, blobs: list[bytes]) -> list[Any]:
    plain: list[Any] = []
    for column in row:
        if isinstance(column, bytes):
            blobs.append(column)
            plain.append(len(blobs))
        else:
            plain.append(column)
    return plain


def _columns(parts: list[Row], blobs: list[bytes]) -> list[Row]:
    columns: list[Row] = []
    for (table_id, kind, valid_from), group in groupby(parts, lambda part: (part[0], part[1], part[3])):
        members = list(group)
        first = len(blobs) + 1
        blobs += [body for *_, body in members]
        columns.append((table_id, kind, valid_from, [part[2] for part in members], [part[4] for part in members], first))
    return columns


def multirange(ordinals: Sequence[int]) -> str:
    """Ordinals as Postgres writes an int8multirange: `{[0,3),[7,8)}`."""
    bounds: list[list[int]] = []
    for ordinal in sorted(ordinals):
        if bounds and bounds[-1][1] == ordinal:
            bounds[-1][1] = ordinal + 1
        else:
            bounds.append([ordinal, ordinal + 1])
    return "{" + ",".join(f"[{start},{end})" for start, end in bounds) + "}"


def close_name(rows: Rows, number: int, object_id: UUID) -> None:
    rows.names_closed.append((number, object_id))


def open_name(rows: Rows, number: int, object_id: UUID, parent_id: UUID, kind: str, name: str, name_key: str) -> None:
    rows.names.append((number, object_id, parent_id, kind, name, name_key))
