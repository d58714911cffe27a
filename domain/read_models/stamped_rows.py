"""Rows as they stand in the tables: what a whole stream's events fold to, with the positions they got in the log.

Inline, `icecore.write_rows` does the same in the append's transaction; rebuild copies these rows, verify compares with them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from uuid import UUID

from domain.read_models.rows import Row, Rows


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A table of rows, without its generation.

    key_columns -- how many columns at its front name a row; the first of them is the object the row is about.
    types -- of the columns, as Postgres names them.
    """

    table: str
    key_columns: int
    columns: tuple[str, ...]
    types: tuple[str, ...]


def _read_model(table: str, key_columns: int, columns: str) -> ReadModel:
    pairs = [column.split(":") for column in columns.split()]
    return ReadModel(table, key_columns, tuple(name for name, _ in pairs), tuple(kind for _, kind in pairs))


# In the order of the columns in migrations/0001_baseline.sql.
READ_MODELS: tuple[ReadModel, ...] = (
    _read_model(
        "names",
        2,
        "object_id:uuid from_position:int8 to_position:int8 parent_id:uuid kind:text name:text name_key:text",
    ),
    _read_model(
        "warehouses",
        2,
        "warehouse_id:uuid version:int8 position:int8 event_id:uuid project_id:uuid name:text name_key:text storage_profile:bytea"
        " secret_ref:uuid exact_names:bool",
    ),
    _read_model(
        "namespaces",
        2,
        "namespace_id:uuid version:int8 position:int8 event_id:uuid warehouse_id:uuid parent_id:uuid name:text name_key:text"
        " status:text properties:bytea",
    ),
    _read_model(
        "tables",
        2,
        "table_id:uuid version:int8 position:int8 event_id:uuid warehouse_id:uuid namespace_id:uuid name:text name_key:text"
        " status:text metadata_location:text locations:text[] next_ordinal:int8 head:bytea",
    ),
    _read_model(
        "table_parts",
        3,
        "table_id:uuid kind:int2 ordinal:int8 valid_from:int8 valid_to:int8 snapshot_id:int8 body:bytea",
    ),
    _read_model(
        "views",
        2,
        "view_id:uuid version:int8 position:int8 event_id:uuid warehouse_id:uuid namespace_id:uuid name:text name_key:text"
        " status:text metadata_location:text locations:text[] document:bytea",
    ),
    _read_model(
        "proposals",
        2,
        "proposal_id:uuid version:int8 position:int8 event_id:uuid warehouse_id:uuid status:text operation:text command_key:text"
        " hook:text reason:text expires_at_ms:int8 document:bytea",
    ),
)

# Parts that are closed but do not say so themselves yet: no fold of the log by itself, but what it says of parts must be.
PART_TOMBSTONES = _read_model("part_tombstones", 3, "table_id:uuid kind:int2 valid_to:int8 ordinals:text")


def stamped(rows: Rows, positions: Sequence[int]) -> dict[str, list[Row]]:
    """The finished rows of one stream by table; event `n` of `rows` has the position `positions[n - 1]`."""
    return {
        "names": _names(rows, positions),
        "warehouses": _versions(rows.warehouses, positions),
        "namespaces": _versions(rows.namespaces, positions),
        "tables": _versions(rows.tables, positions),
        "table_parts": _parts(rows),
        "views": _versions(rows.views, positions),
        "proposals": _versions(rows.proposals, positions),
    }


def _versions(rows: list[Row], positions: Sequence[int]) -> list[Row]:
    return [(object_id, version, positions[number - 1], *rest) for number, object_id, version, *rest in rows]


def _names(rows: Rows, positions: Sequence[int]) -> list[Row]:
    """A name ends where the next event closes it; an event that closes and opens closes what was there before it."""
    closed: dict[UUID, list[int]] = defaultdict(list)
    for number, object_id in rows.names_closed:
        closed[object_id].append(number)
    named: list[Row] = []
    for number, object_id, *rest in rows.names:
        ends = closed[object_id]
        end = bisect_right(ends, number)
        named.append((object_id, positions[number - 1], positions[ends[end] - 1] if end < len(ends) else None, *rest))
    return named


def _parts(rows: Rows) -> list[Row]:
    # All of one table, so that no id need be looked at.
    ends: dict[tuple[int, int], int] = {}
    for _, kind, valid_to, ordinals in rows.parts_closed:
        for ordinal in ordinals:
            ends[kind, ordinal] = valid_to
    # In the order of their key: a list that is compared with rows read in that order is compared at once.
    return [
        (table_id, kind, ordinal, valid_from, ends.get((kind, ordinal)), snapshot_id, body)
        for table_id, kind, ordinal, valid_from, snapshot_id, body in sorted(rows.parts, key=_PART_KEY)
    ]


# Kind and ordinal.
_PART_KEY = itemgetter(1, 2)
