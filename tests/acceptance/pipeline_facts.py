"""The facts about tables from small landed tables, in a process that has PySpark (pipeline_transforms.py)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from icecore.domain.events import (
    Event,
    MaintenanceFinished,
    MaintenancePlanned,
    NamespaceCreated,
    NamespaceMoved,
    TableProtectionChanged,
)
from icecore.pipeline.landed_tables import EVENTS, OBJECTS, TABLE_CHANGES, TABLE_COMMITS, LandedTable, create_tables
from icecore.pipeline.maintenance_facts import table_facts
from icecore.pipeline.session import SparkSession

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAREHOUSE, OUTER, INNER, TABLE, OTHER, RUN, FAILED, KILLED, SHADOW, ABSURD, VIEW, MERGED = (UUID(int=number) for number in range(1, 13))


def put(spark: SparkSession, table: LandedTable, *rows: dict[str, Any]) -> None:
    given = [tuple({**dict.fromkeys(table.columns), **row}[name] for name in table.columns) for row in rows]
    spark.createDataFrame(given, table.schema).writeTo(table.full_name).append()


def event(
    position: int, stream: UUID, version: int, of: Event, data: dict[str, Any] | None = None, days_ago: float = 100
) -> dict[str, Any]:
    kind, _, _ = of.TOPIC.partition(".")
    return {
        "position": position,
        "stream_id": str(stream),
        "version": version,
        "event_id": str(UUID(int=100 + position)),
        "kind": kind,
        "type": of.TOPIC.rpartition(".")[0],
        "topic": of.TOPIC,
        "recorded_at": NOW - timedelta(days=days_ago),
        "project_id": str(UUID(int=0)),
        "warehouse_id": str(WAREHOUSE),
        "of_pipeline": False,
        "path": [],
        "data": json.dumps(data or {}),
        "state": bytearray(of.encode()),
    }


def commit(position: int, days_ago: float, table: UUID = TABLE, **columns: Any) -> dict[str, Any]:
    counts = {"snapshots_added": 1, "snapshots_removed": 0, "added_data_files": 0, "added_bytes": 0}
    return {**counts, "position": position, "table_id": str(table), "recorded_at": NOW - timedelta(days=days_ago), **columns}


def fill(spark: SparkSession) -> None:
    """Tables in a namespace whose parent was renamed. On one, a rewrite succeeded, one failed, one was killed. One has absurd numbers."""
    create_tables(spark)
    names = {"icecore.maintenance.min-input-files": "7", "icecore.maintenance.enabled": "false", "owner": "me"}
    run = {"table-id": str(TABLE), "procedure": "rewrite_data_files"}
    planned = MaintenancePlanned(TABLE, "rewrite_data_files", "", {}, False)
    finished = MaintenanceFinished(TABLE, "rewrite_data_files", "", {}, 1, 9)
    put(
        spark,
        EVENTS,
        event(1, OUTER, 1, NamespaceCreated(WAREHOUSE, "outer", "outer", "k", names)),
        event(2, INNER, 1, NamespaceCreated(OUTER, "inner", "inner", "l", {"icecore.maintenance.enabled": "true"})),
        event(3, OUTER, 2, NamespaceMoved(WAREHOUSE, "renamed", "renamed")),
        event(11, MERGED, 2, finished, {**run, "procedure": "rewrite_manifests", "outcome": "success", "measured": {}}, days_ago=95),
        event(12, RUN, 1, planned, {**run, "estimate": {"data-files-removed": 8}, "shadow": False}, days_ago=20),
        event(14, RUN, 2, finished, {**run, "outcome": "success", "measured": {"data-files-removed": 4}}, days_ago=19),
        event(16, FAILED, 1, planned, {**run, "estimate": {}, "shadow": False}, days_ago=10),
        event(20, KILLED, 1, planned, {**run, "estimate": {"data-files-removed": 2}, "shadow": False}, days_ago=9),
        event(21, FAILED, 2, finished, {**run, "outcome": "failed", "measured": {}}, days_ago=8),
        event(22, SHADOW, 1, planned, {**run, "estimate": {}, "shadow": True}, days_ago=7),
        event(25, TABLE, 20, TableProtectionChanged(True), {"protected": True}),
        event(26, TABLE, 21, TableProtectionChanged(False), {"protected": False}),
        event(27, ABSURD, 3, TableProtectionChanged(True), {"protected": True}),
    )
    found = {"kind": "table", "warehouse_id": str(WAREHOUSE), "from_position": 4, "from_time": NOW, "namespace_id": str(INNER)}
    path = ["lake", "outer", "inner"]
    put(
        spark,
        OBJECTS,
        {**found, "object_id": str(TABLE), "path": [*path, "before"], "status": "live", "from_position": 3, "to_position": 4},
        {**found, "object_id": str(TABLE), "path": [*path, "orders"], "status": "live"},
        {**found, "object_id": str(VIEW), "path": [*path, "view"], "status": "live", "kind": "view"},
        {**found, "object_id": str(ABSURD), "path": [*path, "absurd"], "status": "live"},
        {**found, "object_id": str(OTHER), "path": [*path, "gone"], "status": "soft-deleted"},
    )
    changes: list[tuple[int, dict[str, str], list[str]]] = [
        (4, {"history.expire.max-snapshot-age-ms": "86400000", "gc.enabled": "false", "comment": "x"}, []),
        (5, {"gc.enabled": "true"}, ["comment"]),
        (6, {}, ["history.expire.max-snapshot-age-ms"]),
        (7, {"history.expire.max-snapshot-age-ms": "172800000"}, []),
    ]
    of_table = {"table_id": str(TABLE)}
    put(spark, TABLE_CHANGES, *({**of_table, "position": at, "properties_set": new, "properties_removed": old} for at, new, old in changes))
    longest = {"history.expire.max-snapshot-age-ms": str(-(2**63))}
    put(spark, TABLE_CHANGES, {"table_id": str(ABSURD), "position": 8, "properties_set": longest, "properties_removed": []})
    totals = {"total_data_files": 9, "total_bytes": 900, "total_delete_files": 7}
    put(
        spark,
        TABLE_COMMITS,
        commit(4, 40, snapshots_added=0),
        commit(
            10,
            30,
            added_position_delete_files=5,
            added_data_files=5,
            added_bytes=500,
            total_data_files=5,
            total_bytes=500,
            total_delete_files=0,
        ),
        commit(13, 20, added_data_files=1, added_bytes=500, total_data_files=1, total_bytes=500, total_delete_files=0),
        commit(15, 3, added_data_files=8, added_bytes=400, removed_position_delete_files=2, **totals),
        commit(17, 1, added_data_files=1, added_bytes=100, total_data_files=None),
        commit(18, 0.5, snapshots_added=0, snapshots_removed=1),
        commit(19, 1, OTHER),
        commit(
            23,
            2,
            ABSURD,
            added_data_files=2**63 - 1,
            added_bytes=-5,
            total_data_files=-9,
            total_bytes=-900,
            total_delete_files=-1,
            added_position_delete_files=3,
        ),
        commit(24, 1, ABSURD, added_data_files=2**63 - 1, added_bytes=1, total_data_files=None),
    )


def check_facts(spark: SparkSession) -> None:
    """Sums over commits, properties of the table and its namespaces, and past runs."""
    fill(spark)
    absurd, table = sorted(table_facts(spark, NOW), key=lambda each: each.name)
    assert (TABLE, WAREHOUSE, "lake.renamed.inner.orders") == (table.table_id, table.warehouse_id, table.name)
    inherited = {"icecore.maintenance.enabled": "true", "icecore.maintenance.min-input-files": "7"}
    assert {**inherited, "history.expire.max-snapshot-age-ms": "172800000", "gc.enabled": "true"} == {**table.inherited, **table.properties}
    counts = (absurd.data_files, absurd.data_bytes, absurd.position_delete_files, absurd.new_files, absurd.new_bytes)
    assert (0, 0, 0, 0, 0) == counts, "clients write the summaries, and one table must not break the plan of all"
    assert (9, 900, 3) == (table.data_files, table.data_bytes, table.position_delete_files), "equality delete files are not among them"
    assert (9, 500) == (table.new_files, table.new_bytes), "after the rewrite that succeeded"
    assert 3 == table.new_manifests, "after the rewrite of manifests, which is too long ago to be a past run"
    assert 3 == table.snapshots, "four were added, and one was removed"
    assert 2 == table.old_snapshots, "three are older than two days, and one was removed"
    assert (NOW - timedelta(days=40), NOW - timedelta(days=0.5)) == (table.first_commit_at, table.last_commit_at)
    assert {12: 2, 0: 1} == table.commits_by_hour
    expected = [
        ("failed", 8, {}, {}),
        ("unfinished", 9, {"data-files-removed": 2}, {}),
        ("success", 19, {"data-files-removed": 8}, {"data-files-removed": 4}),
    ]
    assert expected == [(run.outcome, (NOW - run.finished_at).days, run.estimate, run.measured) for run in table.past]
    assert (False, True) == (table.protected, absurd.protected)
