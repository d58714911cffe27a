"""The views on the landed tables and the report from them, in a process that has PySpark (pipeline_transforms.py)."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from icecore.pipeline.landed_tables import (
    COMMIT_REPORTS,
    NAMESPACE,
    OBJECTS,
    SCAN_REPORTS,
    TABLE_CHANGES,
    TABLE_COMMITS,
    create_tables,
)
from icecore.pipeline.plots import bars, lines
from icecore.pipeline.report import report_page
from icecore.pipeline.session import CATALOG, SparkSession
from icecore.pipeline.views import VIEWS, view_query
from tests.acceptance.pipeline_facts import put

NOW = datetime.now(UTC)
TABLES = BUSY, IDLE, GONE, READ, UNTOUCHED, ODD, VIEW = [str(UUID(int=number)) for number in range(201, 208)]
ABSURD = 2**63 - 1
TARGET = "write.target-file-size-bytes"


def fill(spark: SparkSession) -> None:
    """A busy table whose name is HTML, an idle one, one that was dropped, one that is only read, one without a commit and a
    scan, and a view. Clients sent absurd numbers.
    """
    create_tables(spark)
    for number, (table, name, status, to) in enumerate(
        ((BUSY, "old", "live", 2_002), (BUSY, "<b>$x$</b>", "live", None), (IDLE, "idle", "live", None), (GONE, "gone", "dropped", None))
    ):
        found = {"object_id": table, "kind": "table", "status": status, "from_position": number, "to_position": to}
        put(spark, OBJECTS, {**found, "path": ["lake", "a", "b", name]})
    for table, kind, name in ((READ, "table", "read"), (UNTOUCHED, "table", "untouched"), (ODD, "table", "odd"), (VIEW, "view", "view")):
        found = {"object_id": table, "kind": kind, "status": "live", "from_position": 9}
        put(spark, OBJECTS, {**found, "path": ["lake", "a", "b", name]})
    names = {"warehouse": "lake", "namespace": "a.b"}
    totals = {"total_rows": 30, "total_bytes": 300, "total_data_files": 12, "total_delete_files": 1}

    def commit(position: int, table: str, days_ago: float, **columns: Any) -> dict[str, Any]:
        return {**names, "position": position, "table_id": table, "recorded_at": NOW - timedelta(days=days_ago), **columns}

    put(
        spark,
        TABLE_COMMITS,
        commit(2_001, BUSY, 10, name="old", added_rows=10, added_bytes=100, removed_rows=1, removed_bytes=7_700, writer="trino 470"),
        commit(2_003, BUSY, 0, name="<b>$x$</b>", added_rows=ABSURD, added_bytes=ABSURD, writer="spark 4", operation="append", **totals),
        commit(2_004, BUSY, 0, name="<b>$x$</b>", added_rows=ABSURD, added_bytes=200, operation="append"),
        commit(2_008, BUSY, 0, name="<b>$x$</b>", added_rows=0, added_bytes=0),
        commit(2_005, IDLE, 60, name="idle", total_bytes=-7, total_data_files=1, added_bytes=5),
        commit(2_006, GONE, 0, name="gone", **totals),
        commit(2_007, IDLE, 0, name="idle", added_rows=9, added_bytes=9, removed_bytes=9, operation="replace", total_bytes=-7),
        commit(2_007, READ, 60, name="read", total_bytes=50, total_data_files=1),
        commit(2_008, ODD, 0, name="odd", total_bytes=5, total_data_files=-3),
    )
    put(
        spark,
        TABLE_CHANGES,
        {"table_id": BUSY, "position": 2_001, "properties_set": {TARGET: "7"}, "properties_removed": []},
        {"table_id": BUSY, "position": 2_002, "properties_set": {}, "properties_removed": [TARGET]},
        {"table_id": BUSY, "position": 2_003, "properties_set": {TARGET: "100", "a": "b"}, "properties_removed": []},
        {"table_id": BUSY, "position": 2_004, "properties_set": {"a": "c"}, "properties_removed": ["a"]},
        {"table_id": IDLE, "position": 2_005, "properties_set": {TARGET: "many"}, "properties_removed": []},
        {"table_id": READ, "position": 2_007, "properties_set": {TARGET: "0"}, "properties_removed": []},
    )
    by_ada = {"table_id": BUSY, "engine": "spark 4", "actor": "ada", "received_at": NOW}
    scan = {**by_ada, "bytes": 50, "data_files": 2, "planning_seconds": 1.0}
    put(
        spark,
        SCAN_REPORTS,
        scan,
        {**scan, "bytes": ABSURD, "data_files": ABSURD, "planning_seconds": 3.0, "received_at": NOW - timedelta(days=8)},
        {**scan, "engine": None, "actor": None, "bytes": None},
        {**scan, "table_id": IDLE, "received_at": NOW - timedelta(days=31)},
        {**scan, "table_id": GONE},
        {**scan, "table_id": READ},
    )
    report = {**by_ada, "attempts": 1, "seconds": 1.0}
    put(spark, COMMIT_REPORTS, report, {**report, "attempts": 3, "seconds": 2.0}, {**report, "attempts": None}, {**report, "attempts": -4})
    put(spark, COMMIT_REPORTS, {**report, "engine": None, "attempts": ABSURD}, {**report, "engine": None, "attempts": ABSURD})


def check_views(spark: SparkSession) -> None:
    """Each view shows what its name says, also where clients sent absurd numbers. The report escapes names."""
    fill(spark)
    spark.sql(f"USE {CATALOG}.{NAMESPACE}")
    for name in VIEWS:
        spark.sql(view_query(name)).createOrReplaceTempView(name)

    def rows(view: str, columns: str, order: str = "1") -> list[tuple[Any, ...]]:
        where = "" if view == "writer_conflicts" else f"WHERE table_id IN {(*TABLES,)}"
        return [tuple(row) for row in spark.sql(f"SELECT {columns} FROM {view} {where} ORDER BY {order}").collect()]

    busy, idle, read, untouched, odd = (("lake", "a.b", name) for name in ("<b>$x$</b>", "idle", "read", "untouched", "odd"))
    named = "warehouse, namespace, name"
    assert [busy, idle, read, untouched, odd] == rows("live_tables", named, "table_id")
    growth = rows("table_growth", "name, commits, added_rows, removed_rows, added_bytes, total_rows, total_data_files", "table_id, day")
    old, new, *_ = growth
    assert ("old", 1, 10, 1, 100, None, None) == old, growth
    assert ("<b>$x$</b>", 3, 2 * ABSURD, None, ABSURD + 200, 30, 12) == new, growth
    assert ("idle", 0, None, None, None) == growth[3][:5], growth
    hot = rows("hot_tables", f"{named}, commits, writers, added_bytes, scans, scanned_bytes", "name")
    assert [(*busy, 3, 2, ABSURD + 200, 2, 50), (*odd, 1, 0, 0, 0, 0), (*read, 0, 0, 0, 1, 50)] == hot, hot
    conflicts = rows("writer_conflicts", "engine, actor, commits, retried_commits, conflicts, conflict_rate, average_seconds")
    assert [("spark 4", "ada", 2, 1, 2, 0.5, 1.5), ("unknown", "ada", 2, 2, 2 * ABSURD - 2, 1.0, 1.0)] == conflicts, conflicts
    files = rows("small_files", f"{named}, data_files, bytes, delete_files, average_file_bytes, target_file_bytes, excess_files", "name")
    assert [(*busy, 12, 300, 1, 25.0, 100, 9), (*read, 1, 50, None, 50.0, 512 * 1024**2, 0)] == files, files
    readers = rows("table_readers", "name, engine, actor, scans, data_files, bytes, average_planning_seconds", "name, engine")
    expected = [*((name, "spark 4", "ada", 1, 2, 50, 1.0) for *_, name in (idle, read)), (busy[2], "unknown", None, 1, 2, None, 1.0)]
    assert sorted([(busy[2], "spark 4", "ada", 2, ABSURD + 2, ABSURD + 50, 2.0), *expected]) == sorted(readers), readers
    assert [(*idle, -7), (*untouched, None)] == rows("unused_tables", f"{named}, bytes", "name")
    page = report_page(spark, NOW)
    small = page.partition("<h2>Small files</h2>")[2].partition("<h2>")[0]
    assert "lake.a.b.&lt;b&gt;" in small
    assert "lake.a.b.read" not in small, "it has no file too many"
    assert "7.7 kB" in page, "the bytes removed"
    assert "lake.a.b.&lt;b&gt;$x$&lt;/b&gt;" in page
    assert "<b>" not in page
    for title in ("Growth", "Hot tables", "Conflicts", "Small files", "Readers", "Unused tables"):
        assert f"<h2>{title}</h2>" in page, title
    assert 6 == page.count("<svg"), "two of growth, none of unused tables"
    same_name = lines("t", [("_x", [(date(2026, 1, 1), 1.0)]), ("_x", [(date(2026, 1, 2), 2.0)])])
    assert 2 == same_name.count("_x<"), "two lines of one name, which are in the legend"
    control = bars("t", ["a\x00b\x1b" + "n" * 100], {"s": [1.0]})
    assert "\x00" not in control
    assert f"…{'n' * 59}<" in control, "a long name is shortened"
    for name in VIEWS:
        spark.table(name).where("false").createOrReplaceTempView(name)
    page = report_page(spark, NOW)
    for text in ("No table had a commit in the last 90 days.", "No engine reported a scan.", "Every table was used in the last 30 days."):
        assert text in page, text
    assert 0 == page.count("<svg")
