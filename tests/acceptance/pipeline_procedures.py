"""The procedures of maintenance on a small table, in a process that has PySpark (pipeline_transforms.py)."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import structlog

from icecore.pipeline.maintain import _PROCEDURES, CurrentTable, FileOutsideTableError
from icecore.pipeline.maintenance_policy import MaintenancePolicy
from icecore.pipeline.session import CATALOG, SparkSession

NAME = f"{CATALOG}.runs.small"


def check_procedures(spark: SparkSession) -> None:
    """Each is done by the policy of the table, and measures what it did."""
    folder = spark.conf.get(f"spark.sql.catalog.{CATALOG}.warehouse")
    place = Path(folder) / "runs" / "small"
    spark.sql(f"CREATE TABLE {NAME} (id bigint) USING iceberg TBLPROPERTIES ('history.expire.max-snapshot-age-ms' = '1')")
    for number in range(3):
        spark.sql(f"INSERT INTO {NAME} VALUES ({number})")
    policy = MaintenancePolicy(min_input_files=2, orphan_min_age_days=9)
    table = CurrentTable(folder, UUID(int=1), ("runs",), "small", f"file://{place}", policy, None)

    def run(procedure: str, of: CurrentTable = table) -> dict[str, int]:
        return dict(_PROCEDURES[procedure](spark, of, datetime.now(UTC)))

    def count(part: str) -> int:
        spark.sql(f"REFRESH TABLE {NAME}")
        found: int = spark.table(f"{NAME}.{part}").count()
        return found

    size = sum(row.file_size_in_bytes for row in spark.table(f"{NAME}.files").collect())
    assert {"data-files-removed": 2, "bytes-rewritten": size} == run("rewrite_data_files"), "fewer files than Iceberg's default"
    assert 1 == count("files")
    manifests = count("manifests")
    assert {"manifests-removed": manifests - 1} == run("rewrite_manifests")
    snapshots, files = count("snapshots"), sum(1 for _ in place.rglob("*.*"))
    expired = run("expire_snapshots")
    assert (snapshots - 1, 1) == (expired["snapshots-removed"], count("snapshots"))
    assert expired["files-deleted"] > 3, (expired, files)

    old, young = place / "data" / "old.parquet", place / "data" / "young.parquet"
    for file, days in ((old, 10), (young, 8)):
        file.write_bytes(b"x")
        os.utime(file, ((datetime.now(UTC) - timedelta(days=days)).timestamp(),) * 2)
    try:
        run("remove_orphan_files", replace(table, location=f"file://{place}/da"))
        raise AssertionError("a file outside the table's location was removed")
    except FileOutsideTableError as refusal:
        said = str(refusal)
    assert "A file outside the table's location would be removed" in said, said
    assert old.exists()
    with structlog.testing.capture_logs() as logs:
        assert {"files-deleted": 1} == run("remove_orphan_files")
    assert [(1, [str(old)])] == [(log["count"], [Path(name.removeprefix("file:")).as_posix() for name in log["files"]]) for log in logs], (
        logs
    )
    assert (False, True) == (old.exists(), young.exists()), "younger than the table's policy permits"
    assert 3 == spark.table(NAME).count()


def check_delete_files(spark: SparkSession) -> None:
    """As few as the policy says."""
    name = f"{CATALOG}.runs.deletes"
    properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition'"
    spark.sql(f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({properties}) AS SELECT /*+ COALESCE(1) */ id FROM range(10)")
    for number in range(3):
        spark.sql(f"DELETE FROM {name} WHERE id = {number}")
    assert 3 == spark.table(f"{name}.delete_files").count()
    folder = spark.conf.get(f"spark.sql.catalog.{CATALOG}.warehouse")
    policy = MaintenancePolicy(min_input_files=2)
    table = CurrentTable(folder, UUID(int=1), ("runs",), "deletes", f"file://{folder}/runs/deletes", policy, None)
    measured = _PROCEDURES["rewrite_position_delete_files"](spark, table, datetime.now(UTC))
    assert 2 == measured["delete-files-removed"], measured
