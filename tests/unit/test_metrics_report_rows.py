"""Rows of `scan_reports` and `commit_reports` from the reports of engines."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from icecore.pipeline.landed_tables import COMMIT_REPORTS, SCAN_REPORTS
from icecore.pipeline.metrics_source import StoredReport, commit_report_row, scan_report_row

RECEIVED_AT = datetime(2026, 1, 2, tzinfo=UTC)
REPORT_ID, TABLE_ID, WAREHOUSE_ID = UUID(int=1), UUID(int=2), UUID(int=3)
SCAN = {
    "report-type": "scan-report",
    "table-name": "ice.sales.orders",
    "snapshot-id": 7,
    "filter": {"type": "eq", "term": "id", "value": 1},
    "schema-id": 2,
    "projected-field-ids": [1, 3],
    "projected-field-names": ["id", "total"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2_500_000_000},
        "result-data-files": {"unit": "count", "value": 11},
        "result-delete-files": {"unit": "count", "value": 12},
        "total-file-size-in-bytes": {"unit": "bytes", "value": 13},
        "skipped-data-files": {"unit": "count", "value": 14},
        "scanned-data-manifests": {"unit": "count", "value": 15},
        "skipped-data-manifests": {"unit": "count", "value": 16},
    },
    "metadata": {"engine-name": "spark", "engine-version": "4.1.4", "app-id": "a"},
}
COMMIT = {
    "report-type": "commit-report",
    "table-name": "ice.sales.orders",
    "snapshot-id": 7,
    "sequence-number": 8,
    "operation": "append",
    "metrics": {
        "total-duration": {"count": 1, "time-unit": "milliseconds", "total-duration": 250},
        "attempts": {"unit": "count", "value": 3},
        "added-data-files": {"unit": "count", "value": 21},
        "removed-data-files": {"unit": "count", "value": 22},
        "added-records": {"unit": "count", "value": 23},
        "removed-records": {"unit": "count", "value": 24},
    },
    "metadata": {"engine-name": "trino"},
}


def scan(report: Any, warehouse_id: UUID | None = WAREHOUSE_ID, actor: str | None = "ada") -> dict[str, Any]:
    row = scan_report_row(StoredReport(5, REPORT_ID, RECEIVED_AT, TABLE_ID, warehouse_id, actor, orjson.dumps(report)))
    return dict(zip(SCAN_REPORTS.columns, row, strict=True))


def commit(report: Any) -> dict[str, Any]:
    row = commit_report_row(StoredReport(5, REPORT_ID, RECEIVED_AT, TABLE_ID, WAREHOUSE_ID, "ada", orjson.dumps(report)))
    return dict(zip(COMMIT_REPORTS.columns, row, strict=True))


COMMON = {
    "position": 5,
    "report_id": str(REPORT_ID),
    "received_at": RECEIVED_AT,
    "table_id": str(TABLE_ID),
    "warehouse_id": str(WAREHOUSE_ID),
    "actor": "ada",
    "table_name": "ice.sales.orders",
    "snapshot_id": 7,
}


def test_a_scan_report() -> None:
    """Every column."""
    assert COMMON | {
        "engine": "spark 4.1.4",
        "metadata": SCAN["metadata"],
        "schema_id": 2,
        "filter": '{"type":"eq","term":"id","value":1}',
        "projected_columns": ["id", "total"],
        "planning_seconds": 2.5,
        "data_files": 11,
        "delete_files": 12,
        "bytes": 13,
        "skipped_data_files": 14,
        "scanned_data_manifests": 15,
        "skipped_data_manifests": 16,
    } == scan(SCAN)


def test_a_commit_report() -> None:
    """Every column."""
    assert COMMON | {
        "engine": "trino",
        "metadata": COMMIT["metadata"],
        "sequence_number": 8,
        "operation": "append",
        "seconds": 0.25,
        "attempts": 3,
        "added_data_files": 21,
        "removed_data_files": 22,
        "added_rows": 23,
        "removed_rows": 24,
    } == commit(COMMIT)


@pytest.mark.parametrize(
    "odd",
    [
        *({"metrics": odd} for odd in (None, [], "m", {"result-data-files": 5}, {"result-data-files": {"value": "5"}})),
        *({"metrics": {"result-data-files": {"value": odd}}} for odd in (2**63, -1, True, 1.5, None)),
        {"metrics": {"total-planning-duration": {"time-unit": "seconds", "total-duration": -1}}},
        {"metrics": {"total-planning-duration": {"time-unit": "fortnights", "total-duration": 1}}},
        {"metrics": {"total-planning-duration": {"time-unit": 1, "total-duration": 1}}},
        {"metadata": ["x"], "snapshot-id": "7", "schema-id": 2**31, "table-name": 5, "projected-field-names": "id"},
        {"metadata": {"engine-name": 1}, "projected-field-names": [None, {}]},
    ],
)
def test_what_is_not_as_in_the_spec_is_null(odd: dict[str, Any]) -> None:
    """Clients write the reports, and one report must not stop the job."""
    row = scan({"report-type": "scan-report", **odd}, None, None)
    empty = {name: None for name in row if name not in ("position", "report_id", "received_at", "table_id")}
    assert {**row, **empty, "metadata": {}, "projected_columns": []} == row


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [
        ("nanoseconds", 2e-9), ("microseconds", 2e-6), ("milliseconds", 2e-3), ("seconds", 2.0), ("minutes", 120.0), ("hours", 7_200.0),
        ("days", 172_800.0), ("SECONDS", 2.0),
    ],
)  # fmt: skip
def test_a_timer_may_have_any_unit(unit: str, seconds: float) -> None:
    timer = {"total-planning-duration": {"count": 1, "time-unit": unit, "total-duration": 2}}
    assert seconds == scan({"metrics": timer})["planning_seconds"]


def test_a_table_without_a_snapshot_has_the_snapshot_minus_one() -> None:
    """Iceberg reports it so."""
    assert -1 == scan({"snapshot-id": -1})["snapshot_id"]


@pytest.mark.parametrize("attempts", [-1, 2**31, "1"])
def test_impossible_attempts_are_null(attempts: Any) -> None:
    """One report would decide the conflict rate of all."""
    assert commit({"metrics": {"attempts": {"value": attempts}}})["attempts"] is None


def test_long_and_deep_members_are_limited() -> None:
    """Names are cut; a filter that is nested more deeply than JSON can be written is left out."""
    long = "n" * 300
    row = scan({"table-name": long, "metadata": {"engine-name": long, "engine-version": "1"}})
    assert (256, 256) == (len(row["table_name"]), len(row["engine"]))
    deep = b'{"filter":' + b"[" * 300 + b"]" * 300 + b"}"
    row = dict(zip(SCAN_REPORTS.columns, scan_report_row(StoredReport(5, REPORT_ID, RECEIVED_AT, TABLE_ID, None, None, deep)), strict=True))
    assert row["filter"] is None
