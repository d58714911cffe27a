"""Snapshots, branches and tags (table spec, "Snapshots" and "Snapshot References")."""

from ..errors import BadRequest, IllegalArgument, ValidationFailed
from .fields import (
    Json,
    get_int_or_none,
    get_long,
    get_long_or_none,
    get_string,
    get_string_or_none,
    show,
)

MAIN_BRANCH = "main"
NO_SNAPSHOT_ID = -1
"""The id that versions 1 and 2 write for a table without a current snapshot. No snapshot may have it."""


def sequence_number(snapshot: Json) -> int:
    """The sequence number; 0 if it is not written."""
    number: int = snapshot.get("sequence-number", 0)
    return number


def parse_snapshot(node: object) -> Json:
    """A snapshot in canonical form, with keys in Java's order and without nulls and defaults.

    A summary without an operation gets `overwrite`, as in Java. A null parent or sequence number counts as missing; Java refuses it.
    """
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse table version from a non-object: {show(node)}")
    sequence = get_long_or_none(node, "sequence-number")
    snapshot: Json = {"sequence-number": sequence} if sequence is not None and sequence > 0 else {}
    snapshot["snapshot-id"] = get_long(node, "snapshot-id")
    if snapshot["snapshot-id"] == NO_SNAPSHOT_ID:
        raise IllegalArgument(f"Invalid snapshot-id: {NO_SNAPSHOT_ID} is reserved for no snapshot")
    parent = get_long_or_none(node, "parent-snapshot-id")
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    snapshot["timestamp-ms"] = get_long(node, "timestamp-ms")
    summary = _parse_summary(node)
    if summary:
        snapshot["summary"] = summary
    schema_id = get_int_or_none(node, "schema-id")
    lineage = _parse_lineage(node)
    manifests = _parse_manifests(node)
    if "manifest-list" in manifests:
        _check_lineage(lineage)
    else:
        # Embedded manifests exist only in version 1, which has neither row lineage nor encryption.
        lineage = {}
    snapshot.update(manifests)
    if schema_id is not None:
        snapshot["schema-id"] = schema_id
    snapshot.update(lineage)
    return snapshot


def _parse_summary(node: Json) -> Json:
    if "summary" not in node:
        return {}
    summary = node["summary"]
    if not isinstance(summary, dict):
        raise BadRequest(f"Cannot parse summary from non-object value: {show(summary)}")
    if not summary:
        return {}
    values = {key: get_string(summary, key) for key in summary}
    return {"operation": values.pop("operation", "overwrite"), **values}


def _parse_lineage(node: Json) -> Json:
    values = {
        "first-row-id": get_long_or_none(node, "first-row-id"),
        "added-rows": get_long_or_none(node, "added-rows"),
        "key-id": get_string_or_none(node, "key-id"),
    }
    return {key: value for key, value in values.items() if value is not None}


def _check_lineage(lineage: Json) -> None:
    first_row_id, added_rows = lineage.get("first-row-id"), lineage.get("added-rows")
    if first_row_id is not None and first_row_id < 0:
        raise IllegalArgument(f"Invalid first-row-id (cannot be negative): {first_row_id}")
    if added_rows is not None and added_rows < 0:
        raise IllegalArgument(f"Invalid added-rows (cannot be negative): {added_rows}")
    if first_row_id is not None and added_rows is None:
        raise IllegalArgument("Invalid added-rows (required when first-row-id is set): null")
    if first_row_id is None:
        lineage.pop("added-rows", None)


def _parse_manifests(node: Json) -> Json:
    if "manifest-list" in node:
        return {"manifest-list": get_string(node, "manifest-list")}
    if "manifests" not in node:
        raise BadRequest("Cannot parse missing list: manifests")
    manifests = node["manifests"]
    if not isinstance(manifests, list):
        raise BadRequest(f"Cannot parse JSON array from non-array value: manifests: {show(manifests)}")
    for manifest in manifests:
        if not isinstance(manifest, str):
            raise BadRequest(f"Cannot parse string from non-text value in manifests: {show(manifest)}")
    return {"manifests": manifests}


def parse_ref(node: object) -> Json:
    """A branch or tag in canonical form."""
    if not isinstance(node, dict):
        raise BadRequest(f"Cannot parse snapshot reference from a non-object: {show(node)}")
    snapshot_id = get_long(node, "snapshot-id")
    kind = parse_ref_type(get_string(node, "type"))
    return make_ref(snapshot_id, kind, *parse_retention(node))


def parse_ref_type(text: str) -> str:
    """`branch` or `tag`."""
    if text.lower() not in ("branch", "tag"):
        raise IllegalArgument(f"Invalid snapshot ref type: {text}")
    return text.lower()


def parse_retention(node: Json) -> tuple[int | None, int | None, int | None]:
    """min-snapshots-to-keep, max-snapshot-age-ms and max-ref-age-ms."""
    min_snapshots_to_keep = get_int_or_none(node, "min-snapshots-to-keep")
    return min_snapshots_to_keep, get_long_or_none(node, "max-snapshot-age-ms"), get_long_or_none(node, "max-ref-age-ms")


def make_ref(
    snapshot_id: int, kind: str, min_snapshots_to_keep: int | None, max_snapshot_age_ms: int | None, max_ref_age_ms: int | None
) -> Json:
    """A branch or tag with checked retention: only branches expire snapshots, and every limit is positive."""
    ref: Json = {"snapshot-id": snapshot_id, "type": kind}
    if min_snapshots_to_keep is not None:
        if kind == "tag":
            raise IllegalArgument("Tags do not support setting minSnapshotsToKeep")
        if min_snapshots_to_keep <= 0:
            raise IllegalArgument("Min snapshots to keep must be greater than 0")
        ref["min-snapshots-to-keep"] = min_snapshots_to_keep
    if max_snapshot_age_ms is not None:
        if kind == "tag":
            raise IllegalArgument("Tags do not support setting maxSnapshotAgeMs")
        if max_snapshot_age_ms <= 0:
            raise IllegalArgument("Max snapshot age must be greater than 0 ms")
        ref["max-snapshot-age-ms"] = max_snapshot_age_ms
    if max_ref_age_ms is not None:
        if max_ref_age_ms <= 0:
            raise IllegalArgument("Max reference age must be greater than 0")
        ref["max-ref-age-ms"] = max_ref_age_ms
    return ref


def describe_ref(ref: Json) -> str:
    """The reference in the format of Java's messages."""
    names = (
        ("minSnapshotsToKeep", "min-snapshots-to-keep"),
        ("maxSnapshotAgeMs", "max-snapshot-age-ms"),
        ("maxRefAgeMs", "max-ref-age-ms"),
    )
    retention = "".join(f", {name}={ref.get(key, 'null')}" for name, key in names)
    return f"SnapshotRef{{snapshotId={ref['snapshot-id']}, type={ref['type'].upper()}{retention}}}"


def check_sequence_numbers(document: Json) -> None:
    """Refuses snapshots beyond the table's last sequence number."""
    last = document["last-sequence-number"]
    for snapshot in document["snapshots"]:
        if sequence_number(snapshot) > last:
            raise ValidationFailed(
                f"Invalid snapshot with sequence number {sequence_number(snapshot)} greater than last sequence number {last}"
            )
