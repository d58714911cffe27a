"""Commits on a table: snapshots, refs, logs, properties and other updates, and parsing of requests."""

import copy
from typing import Any

import pytest

from icecore.domain.errors import BadRequest, CatalogError, CommitFailed, IllegalArgument, ValidationFailed
from icecore.domain.metadata.updates import apply_updates, parse_updates
from tests.unit.metadata.tables import FILE, NOW_MS, SCHEMA, after, ids, new_table, ref, snapshot, table_with_snapshots

Json = dict[str, Any]


def refused(table: Json | None, *updates: Json, now_ms: int = NOW_MS) -> CatalogError:
    with pytest.raises(CatalogError) as refusal:
        after(table, *updates, now_ms=now_ms)
    return refusal.value


def remove_snapshots(*snapshot_ids: int) -> Json:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def test_a_commit_appends_and_shares_the_rest() -> None:
    """Existing elements are the same objects, and the base is not modified."""
    table = table_with_snapshots(3)
    before = copy.deepcopy(table)
    grown = after(table, snapshot(4, at_ms=NOW_MS + 4_000, parent=3), ref(4), now_ms=NOW_MS + 4_000, file=FILE)
    assert before == table
    assert [1, 2, 3, 4] == ids(grown["snapshots"], "snapshot-id")
    assert (4, 4, NOW_MS + 4_000) == (grown["current-snapshot-id"], grown["last-sequence-number"], grown["last-updated-ms"])
    assert [{"timestamp-ms": NOW_MS + 3_000, "metadata-file": FILE}] == grown["metadata-log"]
    for key in ("schemas", "partition-specs", "sort-orders", "properties", "statistics"):
        assert grown[key] is table[key]
    for key in ("snapshots", "snapshot-log"):
        assert len(table[key]) == 3
        assert all(kept is old for kept, old in zip(grown[key][:-1], table[key], strict=True))


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": "11111111-0000-7000-8000-000000000001"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": "s3://bucket/table"},
        {"action": "set-properties", "updates": {}},
        {"action": "remove-properties", "removals": []},
        {"action": "set-current-schema", "schema-id": 0},
        {"action": "set-default-spec", "spec-id": 0},
        {"action": "set-default-sort-order", "sort-order-id": 0},
        ref(2),
        {"action": "remove-snapshot-ref", "ref-name": "gone"},
        {"action": "remove-snapshots", "snapshot-ids": [99]},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
        {"action": "remove-encryption-key", "key-id": "k"},
        {"action": "remove-schemas", "schema-ids": []},
        {"action": "remove-partition-specs", "spec-ids": []},
    ],
    ids=lambda update: str(update["action"]),
)
def test_what_changes_nothing_returns_the_base_itself(update: Json) -> None:
    """Nothing is written for such a commit."""
    table = table_with_snapshots(2)
    assert table is after(table, update, file=FILE)


def test_the_last_update_never_goes_back() -> None:
    """Given a clock that is behind the table, when a commit comes, then it happens at the table's own time."""
    table = new_table(now_ms=NOW_MS)
    changed = after(table, {"action": "set-properties", "updates": {"a": "b"}}, now_ms=NOW_MS - 5_000)
    assert NOW_MS == changed["last-updated-ms"]


def test_a_snapshot_too_far_in_the_future_is_refused() -> None:
    """A minute is tolerated; more is 400, as in Java."""
    table = new_table()
    near = after(table, snapshot(1, at_ms=NOW_MS + 60_000), ref(1))
    assert NOW_MS + 60_000 == near["snapshot-log"][0]["timestamp-ms"]
    refusal = refused(table, snapshot(1, at_ms=NOW_MS + 60_001), ref(1))
    assert f"Invalid update timestamp {NOW_MS}: before last snapshot log entry at {NOW_MS + 60_001}" == refusal.message
    assert isinstance(refusal, IllegalArgument)


def test_stale_sequence_numbers_may_be_tried_again() -> None:
    """Given a later sequence number in the table, then 409 and the client refreshes; without a parent it passes."""
    table = table_with_snapshots(2)
    refusal = refused(table, snapshot(3, parent=2, **{"sequence-number": 2}))
    expected = "Validation failed, please retry: Cannot add snapshot with sequence number 2 older than last sequence number 2"
    assert expected == refusal.message
    assert isinstance(refusal, CommitFailed)
    assert 2 == after(table, snapshot(3, **{"sequence-number": 2}))["last-sequence-number"]


def test_a_sequence_that_goes_back_must_not_leave_later_snapshots_behind() -> None:
    """The snapshot without a parent lowers the table's number, and older snapshots above it are then invalid."""
    refusal = refused(table_with_snapshots(2), snapshot(3, **{"sequence-number": 1}))
    assert "Invalid snapshot with sequence number 2 greater than last sequence number 1" == refusal.message


def test_version_1_has_no_sequence_numbers() -> None:
    """A snapshot with one is refused."""
    assert "Sequence number must be 0 in v1: 1" == refused(new_table(format_version=1), snapshot(1)).message


def test_snapshots_of_version_1_follow_one_another() -> None:
    """All have the number 0."""
    table = after(new_table(1), *(snapshot(number, parent=number - 1 or None, **{"sequence-number": 0}) for number in (1, 2)))
    assert ([1, 2], 0) == (ids(table["snapshots"], "snapshot-id"), table["last-sequence-number"])


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_snapshot_without_a_sequence_number_has_the_first(format_version: int) -> None:
    """As in files of version 1."""
    table = after(new_table(format_version), snapshot(1, **{"sequence-number": None}))
    assert 0 == table["last-sequence-number"]


def test_version_3_counts_rows() -> None:
    """Each snapshot's row ids begin at or above the table's counter."""
    table = table_with_snapshots(2, format_version=3)
    assert 20 == table["next-row-id"]
    assert "Cannot add a snapshot: first-row-id is null" == refused(table, snapshot(3, parent=2)).message
    stale = refused(table, snapshot(3, parent=2, **{"first-row-id": 19, "added-rows": 1}))
    expected = "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table next-row-id: 19 < 20"
    assert expected == stale.message
    with pytest.raises(ValidationFailed, match="exhaust the table's row ids"):
        after(table, snapshot(3, parent=2, **{"first-row-id": 20, "added-rows": 2**63 - 1}))


def test_a_range_of_row_ids_above_the_next_one_moves_it_behind_the_range() -> None:
    """Row ids are never reused: the next range begins after the highest id, not at the old counter plus the added rows."""
    grown = after(table_with_snapshots(2, format_version=3), snapshot(3, parent=2, **{"first-row-id": 100, "added-rows": 5}))
    assert 105 == grown["next-row-id"]
    overlapping = refused(grown, snapshot(4, parent=3, **{"first-row-id": 104, "added-rows": 1}))
    assert "first-row-id is behind table next-row-id: 104 < 105" in overlapping.message
    assert 106 == after(grown, snapshot(4, parent=3, **{"first-row-id": 105, "added-rows": 1}))["next-row-id"]


def test_a_corrected_snapshot_log_is_checked_from_its_beginning() -> None:
    """Given a log that a removed snapshot shortens, when an intermediate snapshot is removed from it, then the rest is out of order.

    Each step of the request is within the tolerated skew, but both together are not.
    """
    table = table_with_snapshots(4)
    last_ms = NOW_MS + 4_000
    steps = [snapshot(5, at_ms=last_ms - 50_000), ref(5), snapshot(6, at_ms=last_ms - 100_000), ref(6)]
    borne = after(table, remove_snapshots(3), *steps[:2], now_ms=last_ms)
    assert [4, 5] == ids(borne["snapshot-log"], "snapshot-id")
    refusal = refused(table, remove_snapshots(3), *steps, now_ms=last_ms)
    assert "[BUG] Expected sorted snapshot log entries." == refusal.message


def test_an_upgrade_goes_up_only() -> None:
    """In version 3 the old snapshots are unchanged, and row ids begin at 0."""
    upgraded = after(table_with_snapshots(1), {"action": "upgrade-format-version", "format-version": 3})
    assert (3, 0) == (upgraded["format-version"], upgraded["next-row-id"])
    assert "Cannot downgrade v3 table to v2" == refused(upgraded, {"action": "upgrade-format-version", "format-version": 2}).message
    refusal = refused(upgraded, {"action": "upgrade-format-version", "format-version": 4})
    assert "Cannot upgrade table to unsupported format version: v4 (supported: v1, v2, v3)" == refusal.message


def test_main_moves_the_current_snapshot_and_its_log() -> None:
    """A rollback is logged with the time of the commit."""
    table = table_with_snapshots(3)
    rolled_back = after(table, ref(1), now_ms=NOW_MS + 9_000)
    assert 1 == rolled_back["current-snapshot-id"]
    assert {"timestamp-ms": NOW_MS + 9_000, "snapshot-id": 1} == rolled_back["snapshot-log"][-1]
    empty = after(table, {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert (None, {}) == (empty["current-snapshot-id"], empty["refs"])
    assert empty["snapshot-log"] is table["snapshot-log"]


def test_a_ref_that_comes_back_is_the_one_it_was() -> None:
    """Changes are detected by identity, so a ref that moves and returns is unchanged."""
    table = table_with_snapshots(2)
    assert after(table, ref(1), ref(2))["refs"]["main"] is table["refs"]["main"]


def test_intermediate_snapshots_are_not_logged() -> None:
    """Given two snapshots in one request, each made main in turn, then only the last was current."""
    at_ms = NOW_MS + 2_000
    grown = after(table_with_snapshots(1), snapshot(2, at_ms=at_ms), ref(2), snapshot(3, at_ms=at_ms), ref(3), now_ms=at_ms)
    assert [1, 3] == ids(grown["snapshot-log"], "snapshot-id")


def test_history_before_a_removed_snapshot_is_cleared() -> None:
    """With a gap in the log, time travel would be wrong."""
    trimmed = after(table_with_snapshots(4), remove_snapshots(2))
    assert [1, 3, 4] == ids(trimmed["snapshots"], "snapshot-id")
    assert [3, 4] == ids(trimmed["snapshot-log"], "snapshot-id")


def test_removed_snapshots_take_refs_and_statistics_along() -> None:
    """Tags on them and their statistics would refer to nothing."""
    file = {"snapshot-id": 1, "statistics-path": "s3://b/s", "file-size-in-bytes": 1}
    statistics = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    table = after(
        table_with_snapshots(2),
        ref(1, "t", "tag"),
        {"action": "set-statistics", "statistics": statistics},
        {"action": "set-partition-statistics", "partition-statistics": file},
    )
    assert ([statistics], [file], {"main", "t"}) == (table["statistics"], table["partition-statistics"], set(table["refs"]))
    trimmed = after(table, remove_snapshots(1))
    assert ([], [], {"main"}) == (trimmed["statistics"], trimmed["partition-statistics"], set(trimmed["refs"]))


def test_statistics_are_replaced_per_snapshot() -> None:
    """One file per snapshot. The others are shared."""
    files = [
        {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 1}
        for snapshot_id, path in ((1, "a"), (2, "b"), (1, "c"))
    ]
    updates = [{"action": "set-partition-statistics", "partition-statistics": file} for file in files]
    table = after(table_with_snapshots(2), *updates[:2])
    replaced = after(table, updates[2])
    assert [files[1], files[2]] == replaced["partition-statistics"]
    assert replaced["partition-statistics"][0] is table["partition-statistics"][1]


@pytest.mark.parametrize(
    ("message", "update"),
    [
        ("Cannot set main to unknown snapshot: 9", ref(9)),
        ("Cannot set main to a tag, it must be a branch", ref(1, kind="tag")),
        ("Invalid snapshot ref type: twig", ref(1, kind="twig")),
        ("Tags do not support setting minSnapshotsToKeep", ref(1, "t", "tag", **{"min-snapshots-to-keep": 1})),
        ("Tags do not support setting maxSnapshotAgeMs", ref(1, "t", "tag", **{"max-snapshot-age-ms": 1})),
        ("Min snapshots to keep must be greater than 0", ref(1, "b", **{"min-snapshots-to-keep": 0})),
        ("Max snapshot age must be greater than 0 ms", ref(1, "b", **{"max-snapshot-age-ms": 0})),
        ("Max reference age must be greater than 0", ref(1, "b", **{"max-ref-age-ms": 0})),
        ("Invalid first-row-id (cannot be negative): -1", snapshot(3, **{"first-row-id": -1, "added-rows": 1})),
        ("Invalid added-rows (cannot be negative): -1", snapshot(3, **{"first-row-id": 0, "added-rows": -1})),
        ("Snapshot already exists for id: 1", snapshot(1)),
        ("Invalid snapshot-id: -1 is reserved for no snapshot", snapshot(-1)),
        ("path must not be null or empty", {"action": "set-location", "location": ""}),
    ],
)
def test_refs_and_snapshots_that_cannot_be_are_refused(message: str, update: Json) -> None:
    """The messages are the reference's."""
    assert message == refused(table_with_snapshots(2), update).message


def test_the_smallest_retention_is_one() -> None:
    """For each kind."""
    smallest = {"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 1, "max-ref-age-ms": 1}
    assert smallest.items() <= after(table_with_snapshots(2), ref(1, "b", **smallest))["refs"]["b"].items()


def test_a_table_needs_columns_before_its_first_snapshot() -> None:
    """The message names what is missing."""
    begun = [
        {"action": "assign-uuid", "uuid": "11111111-0000-7000-8000-000000000001"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "set-location", "location": "s3://bucket/table"},
    ]
    message = "Attempting to add a snapshot before a schema is added"
    assert message == refused(None, *begun, snapshot(1)).message


def test_properties_are_set_and_removed_under_old_names_too() -> None:
    """Early clients write `updated` and `removed`. The newer names take precedence."""
    table = after(new_table(), {"action": "set-properties", "updated": {"a": "1", "b": "2"}})
    assert {"a": "1", "b": "2"}.items() <= table["properties"].items()
    table = after(table, {"action": "remove-properties", "removed": ["b"], "removals": ["a", "absent"]})
    assert ("a" in table["properties"], "b" in table["properties"]) == (False, True)


def test_the_metadata_log_keeps_as_many_files_as_the_request_says() -> None:
    """The property is read after the updates. At least one entry stays. Without a previous file there is no entry."""
    table = new_table()
    for number in range(5):
        table = after(table, {"action": "set-properties", "updates": {"n": str(number)}}, file=f"file-{number}")
    assert [f"file-{number}" for number in range(5)] == [entry["metadata-file"] for entry in table["metadata-log"]]
    limit = {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "2"}}
    assert ["file-4", "file-5"] == [entry["metadata-file"] for entry in after(table, limit, file="file-5")["metadata-log"]]
    assert after(table, limit)["metadata-log"] is table["metadata-log"]
    limit["updates"] = {"write.metadata.previous-versions-max": "0"}
    assert ["file-5"] == [entry["metadata-file"] for entry in after(table, limit, file="file-5")["metadata-log"]]
    limit["updates"] = {"write.metadata.previous-versions-max": " 2"}
    with pytest.raises(IllegalArgument, match='For input string: " 2"'):
        after(table, limit, file="file-5")


@pytest.mark.parametrize("given", ["aGVsb", "aGVsbG8==", "aGVsbG8!", "a"])
def test_the_metadata_of_an_encryption_key_is_base64(given: str) -> None:
    """Its padding may be missing but not wrong. A length of 4n+1 characters cannot be decoded."""
    update = {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": given}}
    with pytest.raises(BadRequest, match="not base64"):
        after(new_table(), update)


def test_encryption_keys_come_and_go() -> None:
    """A key id is added once. Its metadata is padded base64."""
    key = {"key-id": "k", "encrypted-key-metadata": "aGVsbG8"}
    table = after(new_table(), {"action": "add-encryption-key", "encryption-key": key})
    assert [{"key-id": "k", "encrypted-key-metadata": "aGVsbG8="}] == table["encryption-keys"]
    assert table is after(table, {"action": "add-encryption-key", "encryption-key": {**key, "encrypted-by-id": "kms"}})
    assert [] == after(table, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"]


def test_a_staged_create_builds_from_nothing() -> None:
    """The first updates of the reference client create the table in the version that they request."""
    uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    updates = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "s3://b/t/"},
    ]
    table = after(None, *updates, file=FILE)
    assert (uuid, 1, "s3://b/t", 2, NOW_MS) == tuple(
        table[key] for key in ("table-uuid", "format-version", "location", "last-column-id", "last-updated-ms")
    )
    assert [] == table["metadata-log"]
    without_uuid = apply_updates(None, updates[2:], now_ms=NOW_MS, previous_metadata_location=None, table_uuid=uuid.upper())
    assert (uuid.upper(), 2) == (without_uuid["table-uuid"], without_uuid["format-version"])
    for missing in range(2, 9, 2):
        kept = [update for place, update in enumerate(updates) if place not in (missing, missing + 1)]
        assert refused(None, *kept).status == 400
    assert refused(None).status == 400


@pytest.mark.parametrize(
    ("message", "update"),
    [
        ('Cannot parse metadata update from non-object value: "x"', "x"),
        ("Cannot parse metadata update. Missing field: action", {"action": None}),
        ("Cannot convert metadata update action to json: dance", {"action": "Dance"}),
        ("Cannot parse missing string: uuid", {"action": "assign-uuid"}),
        ("Cannot parse to a string value: uuid: 5", {"action": "assign-uuid", "uuid": 5}),
        ("Cannot parse to an integer value: schema-id: 2147483648", {"action": "set-current-schema", "schema-id": 2**31}),
        ("Cannot parse to a long value: snapshot-id: true", {"action": "remove-statistics", "snapshot-id": True}),
        ("Cannot parse missing field: snapshot", {"action": "add-snapshot", "snapshot": None}),
        ("Cannot parse missing list: manifests", {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "timestamp-ms": 1}}),
        ("Cannot parse missing map: updates", {"action": "set-properties"}),
        ("Cannot parse to a string value: a: null", {"action": "set-properties", "updates": {"a": None}}),
        ("Cannot parse string from non-text value in removals: 1", {"action": "remove-properties", "removals": [1]}),
        ("Cannot parse integer from non-int value in spec-ids: 1.5", {"action": "remove-partition-specs", "spec-ids": [1.5]}),
        ("Cannot apply update AddViewVersion to a table", {"action": "add-view-version", "view-version": {}}),
    ],
)
def test_updates_that_cannot_be_read_are_refused_by_name(message: str, update: Any) -> None:
    """Unknown actions and invalid fields are 400. The message names the field."""
    with pytest.raises(BadRequest) as refusal:
        after(new_table(), update)
    assert message == refusal.value.message


def test_a_request_is_read_whole_before_any_of_it_is_applied() -> None:
    """A malformed update at the end is reported before an invalid one earlier."""
    refusal = refused(new_table(), {"action": "set-current-schema", "schema-id": 5}, {"action": "assign-uuid"})
    assert "Cannot parse missing string: uuid" == refusal.message


def test_parsed_updates_apply_to_any_state() -> None:
    """A queue decides again on another state without parsing the request again."""
    parsed = parse_updates([{"action": "set-properties", "updates": {"a": "b"}}, ref(1, "b1")])
    for number in (1, 2):
        table = apply_updates(table_with_snapshots(number), parsed, now_ms=NOW_MS, previous_metadata_location=None)
        assert ("b", 1) == (table["properties"]["a"], table["refs"]["b1"]["snapshot-id"])


def test_a_commit_does_not_touch_ten_thousand_snapshots() -> None:
    """Given a long history, a commit reads no snapshot but its own; of the others only the id."""
    table = new_table()
    history = [{"snapshot-id": snapshot_id} for snapshot_id in range(1, 10_001)]
    log = [{"timestamp-ms": NOW_MS, "snapshot-id": snapshot_id} for snapshot_id in range(1, 10_001)]
    refs = {"main": {"snapshot-id": 10_000, "type": "branch"}}
    table = {**table, "snapshots": history, "snapshot-log": log, "refs": refs, "current-snapshot-id": 10_000}
    grown = after(table, snapshot(10_001, parent=10_000), ref(10_001), file=FILE)
    assert all(kept is old for kept, old in zip(grown["snapshots"][:-1], history, strict=True))
    assert (10_001, 10_001) == (len(grown["snapshots"]), len(grown["snapshot-log"]))
