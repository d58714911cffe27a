"""The transforms of the pipeline, and the facts that it plans from, on small data. Runs in a process that has PySpark:

`python -m tests.acceptance.pipeline_transforms FOLDER`. The landed tables are in a catalog of Iceberg that is a folder: the pipeline reads
nothing else.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from icecore.pipeline.landed_tables import EVENTS
from icecore.pipeline.session import CATALOG, EXTENSIONS, SPARK_CATALOG, DataFrame, SparkSession
from icecore.pipeline.transforms import object_changes, object_merge, table_changes, table_commits
from tests.acceptance.pipeline_facts import check_facts
from tests.acceptance.pipeline_merges import check_columns, check_merges
from tests.acceptance.pipeline_procedures import check_delete_files, check_procedures
from tests.acceptance.pipeline_runs import check_runs
from tests.acceptance.pipeline_views import check_views
from tests.acceptance.summary_members import SUMS, TOTALS
from tests.servers.maven import jar
from tests.servers.spark import RUNTIME_4_1

TABLE, OWN = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
START = datetime(2026, 1, 1, tzinfo=UTC)


def events(spark: SparkSession, *given: tuple[str, dict[str, Any]], own: bool = False) -> DataFrame:
    """Events of one table, a second apart: type and data."""
    rows = []
    for number, (kind, data) in enumerate(given, 1):
        row: dict[str, Any] = dict.fromkeys(EVENTS.columns) | {
            "position": number,
            "version": number,
            "stream_id": TABLE,
            "kind": kind.partition(".")[0],
            "type": kind,
            "recorded_at": START + timedelta(seconds=number),
            "warehouse_id": OWN,
            "of_pipeline": own,
            "path": ["lake", "sales", "eu", "orders"],
            "data": json.dumps(data),
        }
        rows.append(tuple(row[name] for name in EVENTS.columns))
    return spark.createDataFrame(rows, EVENTS.schema)


def snapshot(number: int, **summary: str) -> dict[str, Any]:
    return {"snapshot-id": number, "operation": "append", "summary": {name.replace("_", "-"): value for name, value in summary.items()}}


def check_commits(spark: SparkSession) -> None:
    """Sums over the added snapshots; text that is no number counts as 0. The time since the commit before, also of an earlier batch."""
    found = events(
        spark,
        ("table.created", {"metadata-location": "a"}),
        ("table.committed", {"snapshots-added": [snapshot(1, added_records="2"), snapshot(2, added_records="3", engine_name="spark")]}),
        ("table.committed", {"snapshots-added": [snapshot(3, added_records="many", added_data_files="1")]}),
        ("table.dropped", {}),
    )
    earlier = spark.createDataFrame([(TABLE, START - timedelta(seconds=9))], "table_id string, recorded_at timestamp")
    rows = sorted(table_commits(found, earlier).collect(), key=lambda row: row.position)
    assert [(1, 0, 10.0), (2, 5, 1.0), (3, 0, 1.0)] == [(row.position, row.added_rows, row.seconds_since_previous) for row in rows]
    assert [0, 2, 1] == [row.snapshots_added for row in rows]
    assert [None, "spark", None] == [row.writer for row in rows]
    assert {("lake", "sales.eu", "orders")} == {(row.warehouse, row.namespace, row.name) for row in rows}
    none = spark.createDataFrame([], "table_id string, recorded_at timestamp")
    first = min(table_commits(found, none).collect(), key=lambda row: row.position)
    assert first.seconds_since_previous is None
    assert [] == table_commits(events(spark, ("table.committed", {}), own=True), none).collect()
    imported = table_commits(events(spark, ("table.registered", {}), ("table.overwritten", {}), ("table.renamed", {})), none).collect()
    assert ["table.registered", "table.overwritten"] == [row.type for row in sorted(imported, key=lambda row: row.position)]
    other = found.replace(TABLE, OWN, ["stream_id"]).where("position = 2")
    assert [None] == [row.seconds_since_previous for row in table_commits(found.union(other), none).collect() if row.table_id == OWN]


def check_sums(spark: SparkSession) -> None:
    """Each column is of the summaries' members that Iceberg writes for it."""
    members = SUMS | TOTALS
    summary = {member: str(number) for number, member in enumerate(members.values(), 1)}
    committed = {"snapshots-added": [{"snapshot-id": 1, "operation": "append", "summary": summary}], "summary": summary}
    none = spark.createDataFrame([], "table_id string, recorded_at timestamp")
    [row] = table_commits(events(spark, ("table.committed", committed)), none).collect()
    found = {column: row[column] for column in members}
    assert {column: number for number, column in enumerate(members, 1)} == found, found


def check_begins(spark: SparkSession) -> None:
    """A table that begins with a snapshot has its totals as added. Those of other events are not counted twice."""
    totals = {"total-data-files": "3", "total-records": "70", "total-files-size": "9", "total-delete-files": "1", "added-records": "5"}
    begun = {"current-snapshot-id": 1, "operation": "replace", "summary": totals}
    none = spark.createDataFrame([], "table_id string, recorded_at timestamp")
    kinds = ("table.created", "table.registered", "table.overwritten", "table.committed")
    rows = table_commits(events(spark, *((kind, begun) for kind in kinds)), none).collect()
    found = {row.type: (row.snapshots_added, row.added_data_files, row.added_rows, row.added_bytes, row.operation) for row in rows}
    whole = (1, 3, 70, 9, None)
    assert {"table.created": (*whole[:-1], "replace"), "table.registered": whole, "table.overwritten": whole} == {
        kind: found[kind] for kind in kinds[:-1]
    }
    assert (0, 0, 0, 0, "replace") == found["table.committed"]
    assert {(1, 0)} == {(row.added_delete_files, row.removed_rows) for row in rows if row.type != "table.committed"}


def check_changes(spark: SparkSession) -> None:
    """Only events that changed something besides the data."""
    found = events(
        spark,
        ("table.committed", {"snapshots-added": [snapshot(1)]}),
        ("table.committed", {"schema-id": 1, "properties-set": {"a": "b"}, "properties-removed": ["c"]}),
        ("table.committed", {"refs-set": [{"name": "main", "type": "branch", "snapshot-id": 1}]}),
        ("table.committed", {"default-spec-id": 4}),
        ("table.committed", {"default-sort-order-id": 5}),
    )
    schema, refs, spec, order = sorted(table_changes(found).collect(), key=lambda row: row.position)
    assert (2, 1, {"a": "b"}, ["c"]) == (schema.position, schema.schema_id, schema.properties_set, schema.properties_removed)
    assert [("main", "branch", 1)] == [tuple(ref) for ref in refs.refs_set]
    assert [(4, None), (None, 5)] == [(row.default_spec_id, row.default_sort_order_id) for row in (spec, order)]


def check_objects(spark: SparkSession) -> None:
    """Each row ends where the next begins. A merge ends the open row of an earlier batch, and adds the rows of this one."""
    found = events(
        spark,
        ("table.created", {}),
        ("table.committed", {}),
        ("table.dropped", {"expires-at": "2026-01-08T00:00:00Z"}),
        ("table.undropped", {}),
        ("table.dropped", {}),
        ("table.purge-cancelled", {}),
    )
    rows = sorted(object_changes(found).collect(), key=lambda row: row.from_position)
    expected = [("live", 1, 3), ("soft-deleted", 3, 4), ("live", 4, 5), ("dropped", 5, 6), ("dropped", 6, None)]
    assert expected == [(row.status, row.from_position, row.to_position) for row in rows]
    merge = object_merge(object_changes(found)).collect()
    assert len(expected) == sum(not row.ends for row in merge)
    [end] = [row for row in merge if row.ends]
    assert (TABLE, 1, None) == (end.object_id, end.to_position, end.from_position)
    for kind, status in (
        *(("namespace.dropped", "dropped"), ("namespace.moved", "live"), ("warehouse.deactivated", "inactive"), ("view.renamed", "live")),
        *(("table.unregistered", "unregistered"), ("table.purged", "purged"), ("project.deleted", "deleted"), ("view.expired", "dropped")),
    ):
        [row] = object_changes(events(spark, (kind, {}))).collect()
        assert status == row.status, kind
    [row] = object_changes(events(spark, ("project.created", {})).replace(OWN, str(UUID(int=0)), ["warehouse_id"])).collect()
    assert row.warehouse_id is None, "a project is in no warehouse"
    [row] = object_changes(events(spark, ("namespace.dropped", {"expires-at": "2026-01-08T00:00:00Z"}))).collect()
    assert "soft-deleted" == row.status


CHECKS = (
    *(check_commits, check_sums, check_begins, check_changes, check_objects, check_facts, check_runs),
    *(check_procedures, check_delete_files, check_merges, check_columns, check_views),
)


def main(folder: str) -> None:
    from pyspark.sql import SparkSession as Session

    catalog = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.jars": str(jar(RUNTIME_4_1)),
        "spark.ui.enabled": "false",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        catalog: SPARK_CATALOG,
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": folder,
    }
    builder = Session.builder.master("local[1]").appName("transforms")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for check in CHECKS:
        check(spark)
        print(check.__name__, "passed")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
