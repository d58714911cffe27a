"""New tables: fresh ids, added and omitted properties."""

from typing import Any

import pytest

from icecore.domain.errors import BadRequest, CatalogError, IllegalArgument, ValidationFailed
from tests.unit.metadata.tables import NOW_MS, new_table


def test_ids_are_fresh_and_spec_and_order_follow_the_columns() -> None:
    """Given a client that counts from 0, then columns count from 1 and spec and order point to the same columns as before."""
    spec = {"spec-id": 5, "fields": [{"name": "day", "transform": "Day", "source-id": 1, "field-id": 77}]}
    order = {"order-id": 9, "fields": [{"transform": "identity", "source-id": 0, "direction": "ASC", "null-order": "nulls-first"}]}
    table = new_table(partition_spec=spec, write_order=order)
    assert [1, 2, 3] == [field["id"] for field in table["schemas"][0]["fields"]]
    assert [{"spec-id": 0, "fields": [{"name": "day", "transform": "day", "source-id": 2, "field-id": 1000}]}] == table["partition-specs"]
    expected_order = {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
    assert [{"order-id": 1, "fields": [expected_order]}] == table["sort-orders"]
    assert (3, 1000, 0, 1) == (
        table["last-column-id"],
        table["last-partition-id"],
        table["default-spec-id"],
        table["default-sort-order-id"],
    )


def test_a_plain_table_has_every_key_and_no_history() -> None:
    """The canonical inner form is complete from the first document on."""
    table = new_table(format_version=3, location="s3://bucket/table//")
    assert {
        "format-version": 3,
        "location": "s3://bucket/table",
        "last-updated-ms": NOW_MS,
        "current-snapshot-id": None,
    }.items() <= table.items()
    assert {"last-sequence-number": 0, "next-row-id": 0, "default-sort-order-id": 0, "last-partition-id": 999}.items() <= table.items()
    lists = ("snapshots", "statistics", "partition-statistics", "snapshot-log", "metadata-log", "encryption-keys")
    assert [[]] * len(lists) == [table[key] for key in lists]


def test_reserved_properties_are_obeyed_and_not_kept() -> None:
    """`format-version` chooses the version. A compression is set unless the client sets one."""
    table = new_table(properties={"format-version": "1", "uuid": "x", "owner": "ann"})
    assert table["format-version"] == 1
    assert {"owner": "ann", "write.parquet.compression-codec": "zstd"} == table["properties"]
    assert new_table(properties={"write.parquet.compression-codec": "snappy"})["properties"]["write.parquet.compression-codec"] == "snappy"


@pytest.mark.parametrize(
    ("refusal", "message", "given"),
    [
        (BadRequest, "Invalid schema: null", {"schema": None}),
        (IllegalArgument, 'For input string: "two"', {"properties": {"format-version": "two"}}),
        (IllegalArgument, "Unsupported format version: v4 (supported: v1, v2, v3)", {"properties": {"format-version": "4"}}),
        (
            ValidationFailed,
            "Table property commit.retry.num-retries must have integer value",
            {"properties": {"commit.retry.num-retries": "many"}},
        ),
        (IllegalArgument, "Invalid properties for v2: [encryption.key-id]", {"properties": {"encryption.key-id": "k"}}),
        (
            IllegalArgument,
            "Unsupported type: string",
            {"partition_spec": {"fields": [{"name": "d", "transform": "day", "source-id": 2}]}},
        ),
    ],
)
def test_what_a_new_table_cannot_have_is_refused(refusal: type[CatalogError], message: str, given: dict[str, Any]) -> None:
    """The message is the reference's."""
    with pytest.raises(refusal) as refused:
        new_table(**given)
    assert message == refused.value.message


def test_metrics_properties_name_columns_of_the_schema() -> None:
    """A column that is not there is refused when the table is created."""
    with pytest.raises(ValidationFailed, match="could not find column gone from table prop"):
        new_table(properties={"write.metadata.metrics.column.gone": "full"})
    assert new_table(properties={"write.metadata.metrics.column.name": "full"})["format-version"] == 2
