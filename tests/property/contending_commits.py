"""Tables in random states, and sets of commits that several engines make on the state they have seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

COMMITS_MAX = 6
PROPERTY_KEYS = ("a", "b", "c", "d", "e", "f")
BRANCHES = ("main", "audit", "stage")
_APPENDED_TO = ("main", "main", "main", "main", "audit", "stage")
_COLUMNS = ("id", "name", "day")


@dataclass(frozen=True, slots=True)
class Move:
    """The intention of one engine: a kind, two numbers that choose the objects, and the process it uses."""

    kind: str
    which: int
    value: int
    process: int


@dataclass(frozen=True, slots=True)
class Contention:
    """The initial state of a table and concurrent moves."""

    format_version: int
    snapshots: int
    tags: int
    branches: int
    moves: Sequence[Move]


@dataclass(slots=True)
class Commit:
    """A move as a CommitTable request. touches -- everything it changes or depends on. Commits without a common element must both
    succeed.
    """

    move: Move
    updates: list[Json]
    requirements: list[Json]
    touches: set[tuple[str, Any]] = field(default_factory=set)


def contentions() -> st.SearchStrategy[Contention]:
    """Half of the moves are drawn from a few kinds and objects, so that they conflict."""
    kinds = st.sampled_from([*_MOVES, *("append",) * 4, "column", "column"])
    moves = st.lists(st.builds(Move, kinds, st.integers(0, 5), st.integers(0, 3), st.integers(0, 1)), min_size=3, max_size=COMMITS_MAX)
    return st.builds(Contention, st.integers(1, 3), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2), moves)


def beginning(contention: Contention, location: str, now_ms: int) -> list[Json]:
    """The updates that create the table, with its snapshots, tags and branches."""
    fields = [{"id": n, "name": name, "required": False, "type": "long"} for n, name in enumerate(_COLUMNS, 1)]
    updates: list[Json] = [
        {"action": "upgrade-format-version", "format-version": contention.format_version},
        {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": fields}, "last-column-id": len(fields)},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"a": "0", "b": "0"}},
    ]
    for number in range(contention.snapshots):
        snapshot = _snapshot(location, contention.format_version, number + 1, number + 1, number or None, now_ms + number, 10 * number)
        updates += [{"action": "add-snapshot", "snapshot": snapshot}, _ref("main", "branch", number + 1)]
    for number in range(min(contention.tags, contention.snapshots)):
        updates.append(_ref(f"t{number}", "tag", number + 1))
    for number in range(contention.branches if contention.snapshots else 0):
        updates.append(_ref(BRANCHES[1 + number], "branch", max(1, contention.snapshots - number)))
    return updates


def commit_of(move: Move, number: int, seen: Json) -> Commit:
    """The request of an engine that has seen this document. `number` counts the commits of one contention."""
    updates, requirements, touches = _MOVES[move.kind](move, number, seen)
    if move.value == 0:
        requirements = [{"type": "assert-table-uuid", "uuid": seen["table-uuid"]}, *requirements]
    return Commit(move, updates, requirements, touches)


_Made = tuple[list[Json], list[Json], set[tuple[str, Any]]]


def _properties(move: Move, number: int, seen: Json) -> _Made:
    key = PROPERTY_KEYS[move.which]
    return [{"action": "set-properties", "updates": {key: str(move.value)}}], [], {("property", key)}


def _remove_property(move: Move, number: int, seen: Json) -> _Made:
    key = PROPERTY_KEYS[move.which]
    return [{"action": "remove-properties", "removals": [key]}], [], {("property", key)}


def _append(move: Move, number: int, seen: Json) -> _Made:
    """A snapshot on a branch, which must not have moved."""
    branch = _APPENDED_TO[move.which]
    head = seen["refs"].get(branch, {}).get("snapshot-id")
    snapshot_id = 100 + number
    sequence_number, first_row_id = seen.get("last-sequence-number", 0) + 1, seen.get("next-row-id", 0)
    at_ms = seen["last-updated-ms"] + 1 + number
    made = _snapshot(seen["location"], seen["format-version"], snapshot_id, sequence_number, head, at_ms, first_row_id)
    updates = [{"action": "add-snapshot", "snapshot": made}, _ref(branch, "branch", snapshot_id)]
    return updates, [_assert_ref(branch, head)], {("ref", branch), ("sequence", 0)}


def _tag(move: Move, number: int, seen: Json) -> _Made:
    """A name for an existing snapshot: a new tag, or one that must not exist yet."""
    name = f"n{move.which % 3}"
    ids = [snapshot["snapshot-id"] for snapshot in seen["snapshots"]]
    if not ids:
        return _properties(move, number, seen)
    snapshot_id = ids[move.value % len(ids)]
    requirements = [_assert_ref(name, None)] if move.which > 2 else []
    return [_ref(name, "tag", snapshot_id)], requirements, {("ref", name), ("snapshot", snapshot_id)}


def _remove_ref(move: Move, number: int, seen: Json) -> _Made:
    names = sorted(name for name in seen["refs"] if name != "main") or ["nowhere"]
    name = names[move.which % len(names)]
    requirements = [_assert_ref(name, seen["refs"].get(name, {}).get("snapshot-id"))] if move.value > 1 else []
    return [{"action": "remove-snapshot-ref", "ref-name": name}], requirements, {("ref", name)}


def _expire(move: Move, number: int, seen: Json) -> _Made:
    """Removes an old snapshot and its refs."""
    ids = [snapshot["snapshot-id"] for snapshot in seen["snapshots"]][:-1]
    if not ids:
        return _properties(move, number, seen)
    snapshot_id = ids[move.which % len(ids)]
    named = {("ref", name) for name, ref in seen["refs"].items() if ref["snapshot-id"] == snapshot_id}
    # A tag that is created meanwhile is removed with its snapshot.
    return [{"action": "remove-snapshots", "snapshot-ids": [snapshot_id]}], [], {("snapshot", snapshot_id), *named}


def _column(move: Move, number: int, seen: Json) -> _Made:
    last = seen["last-column-id"]
    current = next(schema for schema in seen["schemas"] if schema["schema-id"] == seen["current-schema-id"])
    added = {"id": last + 1, "name": f"c{move.which}", "required": False, "type": ("long", "string")[move.value % 2]}
    schema = {**current, "schema-id": current["schema-id"] + 1, "fields": [*current["fields"], added]}
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema, "last-column-id": last + 1},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    requirements: list[Json] = [
        {"type": "assert-current-schema-id", "current-schema-id": seen["current-schema-id"]},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": last},
    ]
    return updates, requirements, {("schema", 0)}


def _partitioning(move: Move, number: int, seen: Json) -> _Made:
    source = 1 + move.which % len(_COLUMNS)
    part: Json = {"name": f"p{source}", "transform": ("identity", "bucket[4]")[move.value % 2], "source-id": source}
    part["field-id"] = max(seen["last-partition-id"], 999) + 1
    updates: list[Json] = [
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [part]}},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    requirements: list[Json] = [
        {"type": "assert-default-spec-id", "default-spec-id": seen["default-spec-id"]},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": seen["last-partition-id"]},
    ]
    return updates, requirements, {("spec", 0)}


def _ordering(move: Move, number: int, seen: Json) -> _Made:
    source = 1 + move.which % len(_COLUMNS)
    part = {"transform": "identity", "source-id": source, "direction": "asc", "null-order": "nulls-first"}
    updates: list[Json] = [
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [part]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    requirement = {"type": "assert-default-sort-order-id", "default-sort-order-id": seen["default-sort-order-id"]}
    return updates, [requirement], {("order", 0)}


def _roll_back(move: Move, number: int, seen: Json) -> _Made:
    """Sets main back to an existing snapshot."""
    ids = [snapshot["snapshot-id"] for snapshot in seen["snapshots"]]
    if not ids:
        return _properties(move, number, seen)
    snapshot_id, head = ids[move.which % len(ids)], seen["refs"]["main"]["snapshot-id"]
    touches: set[tuple[str, Any]] = {("ref", "main"), ("snapshot", snapshot_id), ("snapshot", head)}
    return [_ref("main", "branch", snapshot_id)], [_assert_ref("main", head)], touches


_MOVES = {
    "properties": _properties,
    "remove property": _remove_property,
    "append": _append,
    "tag": _tag,
    "remove ref": _remove_ref,
    "expire": _expire,
    "column": _column,
    "partitioning": _partitioning,
    "ordering": _ordering,
    "roll back": _roll_back,
}


def _snapshot(
    location: str, format_version: int, snapshot_id: int, sequence_number: int, parent_id: int | None, at_ms: int, first_row_id: int
) -> Json:
    snapshot: Json = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": at_ms,
        "manifest-list": f"{location}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if parent_id is not None:
        snapshot["parent-snapshot-id"] = parent_id
    if format_version > 1:
        snapshot["sequence-number"] = sequence_number
    if format_version > 2:
        snapshot |= {"first-row-id": first_row_id, "added-rows": 10}
    return snapshot


def _ref(name: str, kind: str, snapshot_id: int) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id}


def _assert_ref(name: str, snapshot_id: int | None) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}
