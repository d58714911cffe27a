"""Metadata files: each format version is parsed to the same inner form, and invalid files are refused."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icecore.domain.errors import BadRequest, CatalogError, IllegalArgument, ValidationFailed
from icecore.domain.metadata.parse import parse_table_metadata
from icecore.domain.metadata.requirements import check_requirements
from tests.unit.metadata.tables import NOW_MS, after, new_table, snapshot, table_with_snapshots

Json = dict[str, Any]

BARE_V1: Json = {
    "format-version": 1,
    "location": "s3://b/t/",
    "last-updated-ms": NOW_MS,
    "last-column-id": 1,
    "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]},
    "partition-spec": [{"name": "b", "transform": "bucket[4]", "source-id": 1}],
}


def test_a_bare_file_of_version_1_gets_its_lists() -> None:
    """The single schema and spec become lists, ids get their defaults, and the old members are dropped."""
    table = parse_table_metadata(BARE_V1)
    assert [{"type": "struct", "schema-id": 0, "fields": BARE_V1["schema"]["fields"]}] == table["schemas"]
    assert [{"spec-id": 0, "fields": [{**BARE_V1["partition-spec"][0], "field-id": 1000}]}] == table["partition-specs"]
    assert {"last-partition-id": 1000, "default-sort-order-id": 0, "table-uuid": None, "location": "s3://b/t"}.items() <= table.items()
    assert {"schema", "partition-spec"}.isdisjoint(table)
    assert table.keys() == new_table().keys()


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_the_inner_form_reads_as_itself(format_version: int) -> None:
    """Parsing is idempotent."""
    table = table_with_snapshots(3, format_version) if format_version > 1 else new_table(1)
    assert table == parse_table_metadata(table)
    assert table == parse_table_metadata({**table, "current-snapshot-id": table["current-snapshot-id"] or -1})


def test_unknown_top_level_keys_are_kept() -> None:
    """They stay in the table through commits. In parts they are dropped."""
    table = parse_table_metadata({**table_with_snapshots(1), "x-other": {"a": [1]}})
    assert {"a": [1]} == table["x-other"]
    assert {"a": [1]} == after(table, {"action": "set-properties", "updates": {"a": "b"}})["x-other"]


def test_only_the_default_order_must_be_of_columns_that_are_there() -> None:
    """Others may refer to dropped columns."""
    table = new_table()
    gone = {"transform": "identity", "source-id": 99, "direction": "asc", "null-order": "nulls-first"}
    orders = [*table["sort-orders"], {"order-id": 1, "fields": [{**gone, "source-id": 1}]}, {"order-id": 2, "fields": [gone]}]
    for default_id in (0, 1):
        file = {**table, "sort-orders": orders, "default-sort-order-id": default_id}
        assert orders == parse_table_metadata(file)["sort-orders"]
    with pytest.raises(CatalogError):
        parse_table_metadata({**table, "sort-orders": orders, "default-sort-order-id": 2})


def test_a_current_snapshot_below_zero_that_is_not_there_is_none() -> None:
    """As in Java. Another missing snapshot is refused."""
    table = {**table_with_snapshots(2), "refs": {}}
    assert parse_table_metadata({**table, "current-snapshot-id": -5})["current-snapshot-id"] is None
    with pytest.raises(CatalogError):
        parse_table_metadata({**table, "current-snapshot-id": 0})


@pytest.mark.parametrize(("next_row_id", "format_version", "is_read"), [(7, 3, True), (6, 3, False), (0, 2, True)])
def test_the_next_row_id_lies_behind_all_rows(next_row_id: int, format_version: int, is_read: bool) -> None:
    """Otherwise the next snapshot would reuse ids."""
    table = after(new_table(3), snapshot(1, **{"first-row-id": 0, "added-rows": 3}), snapshot(2, **{"first-row-id": 3, "added-rows": 4}))
    file = {**table, "format-version": format_version, "next-row-id": next_row_id}
    if is_read:
        assert 2 == len(parse_table_metadata(file)["snapshots"])
    else:
        with pytest.raises(IllegalArgument, match="Invalid next-row-id 6: snapshot 2 has higher row ids"):
            parse_table_metadata(file)


def test_main_is_made_from_the_current_snapshot() -> None:
    """Files from before refs have none."""
    old = {key: value for key, value in table_with_snapshots(2).items() if key != "refs"}
    assert {"main": {"snapshot-id": 2, "type": "branch"}} == parse_table_metadata(old)["refs"]


def test_a_snapshot_is_read_into_its_canonical_form() -> None:
    """A missing operation is added, zeros and nulls are omitted, and row ids are dropped with embedded manifests."""
    sent = {"snapshot-id": 1, "sequence-number": 0, "timestamp-ms": 5, "summary": {"a": "b"}, "manifests": ["m"], "first-row-id": 3}
    table = parse_table_metadata({**new_table(), "snapshots": [{**sent, "parent-snapshot-id": None, "schema-id": None}]})
    expected = {"snapshot-id": 1, "timestamp-ms": 5, "summary": {"operation": "overwrite", "a": "b"}, "manifests": ["m"]}
    assert [expected] == table["snapshots"]


@pytest.mark.parametrize(
    ("refusal", "message", "changes"),
    [
        (IllegalArgument, "Cannot read unsupported version 4", {"format-version": 4}),
        (BadRequest, 'Cannot parse to an integer value: format-version: "2"', {"format-version": "2"}),
        (IllegalArgument, "UUID is required in format v2", {"table-uuid": None}),
        (BadRequest, "Cannot parse to a string value: location: null", {"location": None}),
        (IllegalArgument, "Cannot find schema with current-schema-id=5 from schemas", {"current-schema-id": 5}),
        (IllegalArgument, "Cannot find partition spec with default-spec-id=5 from partition-specs", {"default-spec-id": 5}),
        (IllegalArgument, "Cannot find sort order with default-sort-order-id=5 from sort-orders", {"default-sort-order-id": 5}),
        (IllegalArgument, "Invalid table metadata: Cannot find current version", {"current-snapshot-id": 8, "refs": {}}),
        (IllegalArgument, "Current snapshot ID does not match main branch (1 != 2)", {"current-snapshot-id": 1}),
        (
            ValidationFailed,
            "Invalid snapshot with sequence number 2 greater than last sequence number 1",
            {"last-sequence-number": 1},
        ),
        (
            IllegalArgument,
            "[BUG] Expected sorted snapshot log entries.",
            {"snapshot-log": [{"timestamp-ms": NOW_MS, "snapshot-id": 1}, {"timestamp-ms": NOW_MS - 60_001, "snapshot-id": 2}]},
        ),
        (
            IllegalArgument,
            f"Invalid update timestamp 5: before last snapshot log entry at {NOW_MS + 2_000}",
            {"last-updated-ms": 5},
        ),
        (BadRequest, "Cannot parse missing long: timestamp-ms", {"metadata-log": ["x"]}),
        (BadRequest, "Cannot parse snapshot-log from non-array: 5", {"snapshot-log": 5}),
        (BadRequest, 'Cannot parse ref b from non-object: {"b":5}', {"refs": {"b": 5}}),
        (BadRequest, "Cannot parse to a string value: owner: 5", {"properties": {"owner": 5}}),
        (IllegalArgument, "Multiple entries with same key: 0", {"schemas": [new_table()["schemas"][0]] * 2}),
    ],
)
def test_a_wrong_file_is_refused(refusal: type[CatalogError], message: str, changes: Json) -> None:
    """The error and the message are the reference's."""
    with pytest.raises(refusal) as refused:
        parse_table_metadata({**table_with_snapshots(2), **changes})
    assert message == refused.value.message


def test_later_versions_need_what_version_1_can_do_without() -> None:
    """The lists are required from version 2 on."""
    for key in ("schemas", "partition-specs", "sort-orders", "last-partition-id"):
        table = {name: value for name, value in new_table().items() if name != key}
        with pytest.raises(BadRequest, match=f"{key} must exist in format v2"):
            parse_table_metadata(table)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TABLE = after(
    table_with_snapshots(2, format_version=3),
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": ""}},
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for step in steps for place in ((*way, step), *places(value[step], (*way, step)))]


@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(places(TABLE)), junk=JSON)
def test_no_junk_breaks_the_parser_or_what_follows(place: tuple[Any, ...], junk: Any) -> None:
    """For any value in one place of a file, the result is a table that accepts a commit, or a 400 or 409."""
    document = copy.deepcopy(TABLE)
    *way, last = place
    inner: Any = document
    for step in way:
        inner = inner[step]
    inner[last] = junk
    assert status_of(lambda: commit_on(document)) in (200, 400, 409)


def test_without_junk_the_table_is_committed_to() -> None:
    """Control: the unmodified file accepts the commit."""
    assert 200 == status_of(lambda: commit_on(copy.deepcopy(TABLE)))


def commit_on(document: Json) -> None:
    table = parse_table_metadata(document)
    check_requirements(table, [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}])
    after(table, snapshot(77, **{"first-row-id": 10**6, "added-rows": 1}), {"action": "remove-snapshots", "snapshot-ids": [1]})


def status_of(action: Callable[[], None]) -> int:
    try:
        action()
    except CatalogError as refusal:
        return refusal.status
    return 200


@settings(max_examples=200, deadline=None)
@given(document=JSON)
def test_no_junk_is_a_table(document: Any) -> None:
    """Anything but a table is a 400."""
    with pytest.raises(CatalogError) as refusal:
        parse_table_metadata(document)
    assert refusal.value.status == 400
