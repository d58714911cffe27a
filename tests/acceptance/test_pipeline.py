"""`icecore pipeline` as operators run it: two jobs at once land the log in Iceberg tables, and Spark verifies it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore, operate
from tests.servers.paths import ROOT
from tests.servers.spark import pipeline_environment, pipeline_settings, spark_4_1

SECONDS_MAX = 400

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """With tables that were committed to, renamed and dropped."""
    with icecore(scratch / "data") as running:
        for name in ("system", "lake"):
            (scratch / name).mkdir()
            running.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
        catalog = RestCatalog("lake", uri=running.catalog_uri, warehouse="lake")
        catalog.create_namespace("sales")
        for name in ("orders", "returns", "drafts"):
            table = catalog.create_table(f"sales.{name}", pa.schema([("id", pa.int64())]))
            for number in range(3):
                table.append(pa.table({"id": [number]}))
        catalog.rename_table("sales.orders", "sales.all_orders")
        catalog.drop_table("sales.drafts")
        yield running


def start(server: Icecore, *arguments: str) -> "subprocess.Popen[str]":
    spark = spark_4_1()
    command = [str(PROGRAM), "pipeline", *arguments, "--data", str(server.data), *pipeline_settings(spark)]
    environment = {**clean_environment(), **pipeline_environment(spark)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def ended(job: "subprocess.Popen[str]") -> str:
    output, errors = job.communicate(timeout=SECONDS_MAX)
    assert 0 == job.returncode, errors[-4000:]
    return output


def test_two_jobs_at_once_land_every_event_once(server: Icecore) -> None:
    """The jobs divide the log differently. The rows are those of the log, and `verify` on Spark finds no difference."""
    log = [json.loads(line) for line in operate("log", "--json", "--data", str(server.data)).splitlines()]
    jobs = [start(server, "ingest", "--json", "--batch-events", size) for size in ("9", "14")]
    reports = [json.loads(ended(job)) for job in jobs]
    assert len(log) <= sum(report["events"] for report in reports)
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system")
    events = sorted(landed.load_table("log.events").scan().to_arrow().to_pylist(), key=lambda row: row["position"])
    assert [*range(1, len(events) + 1)] == [row["position"] for row in events]
    assert [event["event-id"] for event in log] == [row["event_id"] for row in events[: len(log)]]
    commits = landed.load_table("log.table_commits").scan().to_arrow().to_pylist()
    kinds = ("table.created", "table.committed")
    assert [row["position"] for row in events if row["type"] in kinds and not row["own"]] == sorted(row["position"] for row in commits)
    assert {1} == {row["added_rows"] for row in commits if row["type"] == "table.committed"}
    objects = landed.load_table("log.objects").scan().to_arrow().to_pylist()
    names = {".".join(row["path"]): row["status"] for row in objects if row["kind"] == "table" and row["to_position"] is None}
    assert {"lake.sales.all_orders": "live", "lake.sales.returns": "live", "lake.sales.drafts": "dropped"} == names
    assert json.loads(ended(start(server, "verify", "--json")))["ok"]


def test_transforms_on_small_data() -> None:
    """In a process that has PySpark."""
    environment = {**clean_environment(), **pipeline_environment(spark_4_1())}
    command = [sys.executable, "-m", "tests.acceptance.pipeline_transforms"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert ["check_commits passed", "check_changes passed", "check_objects passed"] == done.stdout.splitlines(), done.stderr[-4000:]


def test_without_pyspark_the_extra_is_named(server: Icecore) -> None:
    """In one line."""
    command = [str(PROGRAM), "pipeline", "verify", "--data", str(server.data)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert (2, "", "icecore: The pipeline needs PySpark: pip install 'icecore[spark]'\n") == (done.returncode, done.stdout, done.stderr)
