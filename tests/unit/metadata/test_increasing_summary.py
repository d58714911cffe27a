"""The value that increases in the summaries of a table's snapshots."""

from typing import Any

import pytest

from icecore.domain.errors import BadRequest, SummaryOutOfOrder
from icecore.domain.metadata.increasing_summary import KEY_PROPERTY, PREVIOUS_SUFFIX, VALUE_PROPERTY, apply_increasing_summary
from tests.unit.metadata.tables import after, new_table, ref, snapshot

Json = dict[str, Any]

KEY = "log-position"
LARGEST = str(2**63 - 1)


def table(key: str | None = KEY) -> Json:
    return new_table(properties={} if key is None else {KEY_PROPERTY: key})


def with_value(snapshot_id: int, value: Any, key: str = KEY) -> Json:
    return snapshot(snapshot_id, summary={"operation": "append", key: value})


def based_on(snapshot_id: int, value: str, previous: str) -> Json:
    return snapshot(snapshot_id, summary={"operation": "append", KEY: value, KEY + PREVIOUS_SUFFIX: previous})


def set_properties(**properties: str) -> Json:
    return {"action": "set-properties", "updates": properties}


def committed(base: Json | None, *updates: Json) -> Json:
    return apply_increasing_summary(base, after(base, *updates))


def last_value(document: Json) -> str | None:
    value: str | None = document["properties"].get(VALUE_PROPERTY)
    return value


def test_the_value_increases_with_every_commit_that_has_it() -> None:
    """Commits without the key, such as compactions, pass; the first value may be 0, and the largest is 2⁶³−1."""
    first = committed(table(), with_value(1, "0"))
    assert "0" == last_value(first)
    compacted = committed(first, snapshot(2, summary={"operation": "replace"}))
    assert "0" == last_value(compacted)
    assert LARGEST == last_value(committed(compacted, with_value(3, LARGEST)))


@pytest.mark.parametrize("value", ["7", "6", "0"])
def test_a_value_that_does_not_increase_is_refused(value: str) -> None:
    with pytest.raises(SummaryOutOfOrder) as refusal:
        committed(committed(table(), with_value(1, "7")), with_value(2, value))
    said = f"The value of 'log-position' in the snapshot summary is {value}, but must be greater than 7, the value of the last commit"
    assert said == refusal.value.message


def test_snapshots_of_one_commit_are_compared_too() -> None:
    assert "2" == last_value(committed(table(), with_value(1, "1"), with_value(2, "2")))
    with pytest.raises(SummaryOutOfOrder):
        committed(table(), with_value(1, "2"), with_value(2, "1"))


def test_a_commit_that_is_based_on_another_value_is_refused() -> None:
    """Neither an overlap nor a gap passes. The first value has nothing before it to compare with."""
    first = committed(table(), based_on(1, "10", "0"))
    second = committed(first, based_on(2, "20", "10"))
    assert "20" == last_value(second)
    for previous in ("10", "19", "21"):
        with pytest.raises(SummaryOutOfOrder) as refusal:
            committed(second, based_on(3, "30", previous))
        assert (
            f"The value of 'log-position.previous' in the snapshot summary is {previous}, but must be 20, the value of the last commit"
            == refusal.value.message
        )
    with pytest.raises(BadRequest, match="must be a whole number from 0"):
        committed(second, based_on(3, "30", "x"))


@pytest.mark.parametrize("value", ["", "-1", "1.0", "+1", " 1", "1_0", "٣", "0x1", str(2**63), "9" * 19, "1" * 100, "NaN"])
def test_a_value_that_is_not_a_whole_number_is_refused(value: str) -> None:
    with pytest.raises(BadRequest, match="must be a whole number from 0"):
        committed(table(), with_value(1, value))


def test_a_table_without_the_rule_has_any_values() -> None:
    document = committed(table(None), with_value(1, "7"))
    same = after(document, with_value(2, "x"))
    assert apply_increasing_summary(document, same) is same
    assert last_value(same) is None


def test_the_value_outlives_its_snapshot() -> None:
    """After the snapshot is expired, the catalog still knows its value."""
    document = committed(table(), with_value(1, "7"), ref(1))
    document = committed(document, snapshot(2, parent=1), ref(2))
    document = committed(document, {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert [2] == [each["snapshot-id"] for each in document["snapshots"]]
    with pytest.raises(SummaryOutOfOrder):
        committed(document, with_value(3, "7"))


def test_only_the_catalog_changes_the_value() -> None:
    document = committed(table(), with_value(1, "7"))
    for update in (set_properties(**{VALUE_PROPERTY: "1"}), {"action": "remove-properties", "removals": [VALUE_PROPERTY]}):
        with pytest.raises(BadRequest, match="is set by the catalog"):
            committed(document, update)
    with pytest.raises(BadRequest, match="is set by the catalog"):
        committed(table(None), set_properties(**{VALUE_PROPERTY: "1"}))


def test_another_key_begins_anew() -> None:
    """The commit that changes the key must still obey the old one."""
    document = committed(table(), with_value(1, "7"))
    change = set_properties(**{KEY_PROPERTY: "other"})
    with pytest.raises(SummaryOutOfOrder):
        committed(document, change, with_value(2, "7"))
    changed = committed(document, change, snapshot(2, summary={"operation": "append", KEY: "8", "other": "3"}))
    assert "3" == last_value(changed)
    without = committed(changed, {"action": "remove-properties", "removals": [KEY_PROPERTY]}, with_value(3, "1"))
    assert last_value(without) is None


def test_a_table_that_a_commit_creates_has_the_rule_at_once() -> None:
    created = after(None, {"action": "assign-uuid", "uuid": "11111111-0000-7000-8000-000000000001"}, *creation())
    assert "4" == last_value(apply_increasing_summary(None, created))


def creation() -> tuple[Json, ...]:
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    return (
        {"action": "set-location", "location": "s3://bucket/table"},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        set_properties(**{KEY_PROPERTY: KEY}),
        with_value(1, "4"),
    )
