"""The content of tables in benchmarks: a schema, snapshots like Spark's, and the commits that add them."""

import secrets
import time
from typing import Any

import orjson

Json = dict[str, Any]

# With two snapshots a LoadTableResult of this schema is about 4 KB.
COLUMNS = 20
_TYPES = ("long", "string", "timestamptz", "double", "int", "boolean", "date", "decimal(18, 2)")


def schema(columns: int = COLUMNS) -> Json:
    fields = [
        {"id": n + 1, "name": f"column_{n}", "required": False, "type": _TYPES[n % len(_TYPES)], "doc": f"business column number {n}"}
        for n in range(columns)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def create_body(name: str, properties: dict[str, str] | None = None) -> bytes:
    """A CreateTableRequest with `stage-create`, which engines send and some servers require."""
    given = {"owner": "data-eng", **(properties or {})}
    return orjson.dumps({"name": name, "schema": schema(), "stage-create": False, "properties": given})


def new_snapshot_id() -> int:
    return secrets.randbits(62)


def snapshot(location: str, sequence_number: int, snapshot_id: int, parent_id: int | None) -> Json:
    """A snapshot of an append, with the summary Spark writes."""
    value: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": f"{location}/metadata/snap-{snapshot_id}-1-{secrets.token_hex(16)}.avro",
        "summary": {
            "operation": "append",
            "spark.app.id": "application_1690000000_0042",
            "added-data-files": str(1 + snapshot_id % 9),
            "added-records": str(snapshot_id % 100_000),
            "added-files-size": str(snapshot_id % 100_000_000),
            "changed-partition-count": "1",
            "total-records": str(sequence_number * 50_000),
            "total-files-size": str(sequence_number * 10_000_000),
            "total-data-files": str(sequence_number * 5),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
        "schema-id": 0,
    }
    if parent_id is not None:
        value["parent-snapshot-id"] = parent_id
    return value


def append_body(
    location: str,
    sequence_number: int,
    snapshot_id: int,
    parent_id: int | None,
    *,
    guarded: bool = True,
    removed: list[int] | None = None,
) -> bytes:
    """A CommitTableRequest that appends one snapshot to `main`.

    guarded -- with the requirement that `main` is still at `parent_id`. removed -- snapshots expired by the same commit.
    """
    updates: list[Json] = [
        {"action": "add-snapshot", "snapshot": snapshot(location, sequence_number, snapshot_id, parent_id)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    if removed:
        updates.append({"action": "remove-snapshots", "snapshot-ids": removed})
    requirements: list[Json] = []
    if guarded:
        requirements.append({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent_id})
    return orjson.dumps({"requirements": requirements, "updates": updates})


def many_snapshots_body(location: str, last_sequence_number: int, parent_id: int | None, count: int) -> tuple[bytes, list[int]]:
    """A commit that adds `count` snapshots, the last of them as `main`, and their ids in order."""
    updates: list[Json] = []
    ids: list[int] = []
    for n in range(1, count + 1):
        snapshot_id = new_snapshot_id()
        value = snapshot(location, last_sequence_number + n, snapshot_id, ids[-1] if ids else parent_id)
        updates.append({"action": "add-snapshot", "snapshot": value})
        ids.append(snapshot_id)
    updates.append({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": ids[-1]})
    return orjson.dumps({"requirements": [], "updates": updates}), ids


def properties_body(properties: dict[str, str]) -> bytes:
    return orjson.dumps({"requirements": [], "updates": [{"action": "set-properties", "updates": properties}]})


def tag_body(name: str, snapshot_id: int) -> bytes:
    update = {"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot_id}
    return orjson.dumps({"requirements": [], "updates": [update]})


def expire_body(snapshot_ids: list[int]) -> bytes:
    return orjson.dumps({"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": snapshot_ids}]})
