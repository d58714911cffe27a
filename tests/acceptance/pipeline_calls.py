"""Calls of the pipeline as programs make them. Runs in a process that has PySpark, and prints JSON:

`python -m tests.acceptance.pipeline_calls CALL DATA_FOLDER JSON KEY=VALUE…`, where CALL is one of those in `main`
"""

import contextlib
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pyiceberg.catalog.rest import RestCatalog

from icecore.log_database import opened_database
from icecore.maintenance_commands import run_recorder
from icecore.pipeline import verify
from icecore.pipeline.ingest import ingest
from icecore.pipeline.landed_tables import landed_events
from icecore.pipeline.log_source import LogSource
from icecore.pipeline.maintain import maintain
from icecore.pipeline.maintenance_plan import Candidate
from icecore.pipeline.metrics_source import MetricsSource
from icecore.pipeline.replay import tables_at
from icecore.pipeline.session import catalog_prefix
from icecore.pipeline_commands import PipelineTarget, open_pipeline
from icecore.settings import Settings
from tests.fixtures.readme import pieces
from tests.servers.paths import ROOT


def tables_at_positions(spark: Any, opened: Settings, positions: list[int]) -> dict[str, list[Any]]:
    """The tables after each position: warehouse, path and metadata file; and what the documented program shows."""
    found: dict[str, list[Any]] = {"documented": documented_tables_at(spark)}
    for position in positions:
        rows = tables_at(spark, landed_events(spark, 0, position)).collect()
        found[str(position)] = sorted([row.warehouse_id, [*row.namespace, row.name], row.metadata_location] for row in rows)
    return found


def tables_at_times(spark: Any, opened: Settings, times: list[str]) -> dict[str, list[Any]]:
    """The tables at each time, as `tables_at_positions` gives them."""
    events = spark.table("icecore.log.events")
    found = {time: tables_at(spark, events.where(f"recorded_at <= timestamp'{time}'")).collect() for time in times}
    return {
        time: sorted([row.warehouse_id, [*row.namespace, row.name], row.metadata_location] for row in rows) for time, rows in found.items()
    }


def documented_tables_at(spark: Any) -> list[str]:
    """What the program of docs/how-to/pipeline.md shows for a time after all events, with `spark` as in a Spark shell."""
    program = pieces((ROOT / "docs" / "how-to" / "pipeline.md").read_text())["tables at a time"].replace("2026-01-31", "9999-01-31")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(program, {"spark": spark})
    return shown.getvalue().splitlines()


def remove_orphan_files(spark: Any, opened: Settings, table: dict[str, Any]) -> list[Any]:
    """The outcomes of two runs on one table, with files of one day as orphans."""
    inherited = {"icecore.maintenance.orphan-files-min-age-days": "1"}
    ids = UUID(table["table-id"]), UUID(table["warehouse-id"])
    planned = Candidate(*ids, "t", "remove_orphan_files", "a test", {"files-deleted": 0}, inherited)
    with run_recorder(opened) as recorder:
        report = maintain(spark, [planned, planned], recorder, datetime.now(UTC))
    return [[outcome.outcome, dict(outcome.measured), outcome.error] for _, outcome in report.runs]


def verify_in_parts(spark: Any, opened: Settings, part_events: int) -> dict[str, Any]:
    """Verifies in parts of this many events."""
    verify.PART_EVENTS = part_events
    made: list[int] = []
    parts_between = verify.parts_between

    def counted(boundaries: Any) -> Any:
        parts = parts_between(boundaries)
        made.append(len(parts))
        return parts

    verify.parts_between = counted
    report = verify.verify(spark, LogSource(opened.dsn, UUID(int=0)))
    return {"parts": made[0], "differences": [str(each) for each in report.differences[:10]]}


def maintain_landed_tables(spark: Any, opened: Settings, warehouse: str) -> dict[str, int]:
    """What the statements of docs/how-to/pipeline.md did to `events`, and what a landing after them made of it."""
    catalog = RestCatalog("landed", uri=spark.conf.get("spark.sql.catalog.icecore.uri"), warehouse=warehouse)
    snapshots_before = len(catalog.load_table("log.events").snapshots())
    page = pieces((ROOT / "docs" / "how-to" / "pipeline.md").read_text())["maintain landed tables"]
    rewrite, expire = (statement for statement in page.split(";") if statement.strip())
    # Iceberg's defaults leave a partition with fewer than five files alone, and snapshots that are younger than five days.
    [rewritten] = spark.sql(rewrite.replace("'log.events'", "'log.events', options => map('min-input-files', '2')")).collect()
    spark.sql(expire.replace("'log.events'", "'log.events', older_than => current_timestamp()"))
    snapshots = len(catalog.load_table("log.events").snapshots())
    pipeline_warehouse = UUID(catalog_prefix(spark))
    sources = LogSource(opened.dsn, pipeline_warehouse), MetricsSource(opened.dsn, pipeline_warehouse)
    landed = ingest(spark, *sources)
    counts = "count(*) AS rows, count(DISTINCT position) AS positions, max(position) AS last_position"
    [found] = spark.sql(f"SELECT {counts} FROM icecore.log.events").collect()
    return {
        "snapshots_before": snapshots_before,
        "data_files_removed": rewritten.rewritten_data_files_count - rewritten.added_data_files_count,
        "snapshots": snapshots,
        "landed": landed.events,
        "head": landed.positions["events"],
        **found.asDict(),
    }


def main(call: str, folder: str, argument: str, *settings: str) -> None:
    calls = {
        "tables_at": tables_at_positions,
        "tables_at_times": tables_at_times,
        "remove_orphan_files": remove_orphan_files,
        "verify_in_parts": verify_in_parts,
        "maintain_landed_tables": maintain_landed_tables,
    }
    target = PipelineTarget(None, "system", settings)
    with opened_database(Settings(data_dir=Path(folder))) as opened, open_pipeline(opened, target) as spark:
        print(json.dumps(calls[call](spark, opened, json.loads(argument))))


if __name__ == "__main__":
    main(*sys.argv[1:])
