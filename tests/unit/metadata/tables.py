"""Initial tables for the unit tests of table metadata."""

from typing import Any

from icecore.domain.metadata.create import new_table_metadata
from icecore.domain.metadata.updates import apply_updates

Json = dict[str, Any]

NOW_MS = 1_700_000_000_000
FILE = "s3://bucket/table/metadata/00000-a.metadata.json"

SCHEMA: Json = {
    "type": "struct",
    "fields": [
        {"id": 0, "name": "id", "required": True, "type": "long"},
        {"id": 1, "name": "ts", "required": False, "type": "timestamptz"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}


def new_table(format_version: int = 2, **given: Any) -> Json:
    """A table without snapshots, of the columns id, ts and name (ids 1 to 3)."""
    asked: Json = {
        "partition_spec": None,
        "write_order": None,
        "schema": SCHEMA,
        "location": "s3://bucket/table",
        "now_ms": NOW_MS,
        **given,
    }
    properties = {"format-version": str(format_version), **asked.pop("properties", {})}
    return new_table_metadata(table_uuid="11111111-0000-7000-8000-000000000001", properties=properties, **asked)


def after(base: Json | None, *updates: Json, now_ms: int = NOW_MS, file: str | None = None) -> Json:
    """The table after one commit of these updates."""
    return apply_updates(base, updates, now_ms=now_ms, previous_metadata_location=file)


def snapshot(snapshot_id: int, *, at_ms: int = NOW_MS, parent: int | None = None, **more: Any) -> Json:
    """An `add-snapshot` whose sequence number is its id."""
    sent: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id,
        "timestamp-ms": at_ms,
        "manifest-list": f"s3://b/{snapshot_id}",
    }
    if parent is not None:
        sent["parent-snapshot-id"] = parent
    return {"action": "add-snapshot", "snapshot": {**sent, **more}}


def ref(snapshot_id: int, name: str = "main", kind: str = "branch", **retention: int) -> Json:
    """A `set-snapshot-ref`."""
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id, **retention}


def table_with_snapshots(number: int, format_version: int = 2) -> Json:
    """A table whose snapshots 1 to `number` were current one after the other, a second apart."""
    table = new_table(format_version)
    for snapshot_id in range(1, number + 1):
        at_ms = NOW_MS + snapshot_id * 1_000
        parent = snapshot_id - 1 or None
        rows = {"first-row-id": table["next-row-id"], "added-rows": 10} if format_version == 3 else {}
        table = after(table, snapshot(snapshot_id, at_ms=at_ms, parent=parent, **rows), ref(snapshot_id), now_ms=at_ms)
    return table


def ids(parts: list[Json], key: str) -> list[int]:
    """The ids of a table's parts."""
    return [part[key] for part in parts]
