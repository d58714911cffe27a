"""`icecore pipeline` as operators run it: two jobs at once land the log in Iceberg tables, and Spark verifies it."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import EqualTo

from icecore.log_database import opened_database
from icecore.pipeline.views import VIEWS
from icecore.settings import Settings
from tests.acceptance.pipeline_jobs import SECONDS_MAX, PipelineJobs, ended, python_module, start
from tests.acceptance.pipeline_transforms import CHECKS
from tests.fixtures.readme import CATALOG_URI, pieces, properties
from tests.servers.chromium import FLAGS, chromium
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore, operate
from tests.servers.paths import ROOT
from tests.servers.spark import catalog_settings, pipeline_environment, spark_4_1, spark_shell
from tests.servers.trino import trino

HOSTILE_ENGINE = "<img src=x onerror=document.title='changed by a script'>"
REPORTS = 25
FIRST_POSITION = 5
"""Both warehouses exist."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """With tables that were committed to, renamed and dropped, in a namespace that was moved."""
    with icecore(scratch / "data") as running:
        for name in ("system", "lake"):
            (scratch / name).mkdir()
            running.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
        own = RestCatalog("own", uri=running.catalog_uri, warehouse="system")
        own.create_namespace("other")
        own.create_table("other.own", pa.schema([("id", pa.int64())]))
        catalog = RestCatalog("lake", uri=running.catalog_uri, warehouse="lake")
        catalog.create_namespace("sales")
        for name in ("orders", "returns", "drafts"):
            table = catalog.create_table(f"sales.{name}", pa.schema([("id", pa.int64())]))
            for number in range(3):
                table.append(pa.table({"id": [number]}))
        catalog.rename_table("sales.orders", "sales.all_orders")
        catalog.drop_table("sales.drafts")
        catalog.create_namespace("archive")
        catalog.create_namespace("sales.eu")
        catalog.create_table("sales.eu.stock", pa.schema([("id", pa.int64())]))
        operate("namespace", "move", "lake", "sales", "archive.sales", "--data", str(running.data))
        with spark_shell(spark_4_1(), catalog_settings(running.catalog_uri, "lake"), scratch / "shell") as shell:
            shell.sql("INSERT INTO ice.archive.sales.returns SELECT id + 10 FROM ice.archive.sales.all_orders WHERE id = 1")
        send_reports(running, "lake", "archive%1Fsales", "returns")
        send_reports(running, "system", "other", "own")
        yield running


def send_reports(server: Icecore, warehouse: str, namespace: str, table: str) -> None:
    """Reports with numbers as snapshot ids. Half of the attempts of their commits conflicted."""
    config = requests.get(f"{server.catalog_uri}/v1/config", params={"warehouse": warehouse}, timeout=30).json()
    address = f"{server.catalog_uri}/v1/{config['overrides']['prefix']}/namespaces/{namespace}/tables/{table}/metrics"
    members = {"metrics": {"attempts": {"unit": "count", "value": 2}}, "metadata": {"engine-name": HOSTILE_ENGINE}}
    for number in range(REPORTS):
        for kind in ("scan-report", "commit-report"):
            report = {"report-type": kind, "snapshot-id": number, **members}
            assert 204 == requests.post(address, json=report, timeout=30).status_code


def test_two_jobs_at_once_land_every_event_once(server: Icecore, jobs: PipelineJobs) -> None:
    """The jobs divide the log differently. The rows are those of the log, and `verify` on Spark finds no difference."""
    log = [json.loads(line) for line in operate("log", "--json", "--data", str(server.data)).splitlines()]
    two = [start(server, "ingest", "--json", "--batch-events", size) for size in ("9", "14")]
    reports = [json.loads(ended(job)) for job in two]
    assert len(log) <= sum(report["events"] for report in reports)
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system")
    events = sorted(landed.load_table("log.events").scan().to_arrow().to_pylist(), key=lambda row: row["position"])
    assert [*range(1, len(events) + 1)] == [row["position"] for row in events]
    assert [event["event-id"] for event in log] == [row["event_id"] for row in events[: len(log)]]
    commits = landed.load_table("log.table_commits").scan().to_arrow().to_pylist()
    kinds = ("table.created", "table.committed")
    assert [row["position"] for row in events if row["type"] in kinds and not row["of_pipeline"]] == sorted(
        row["position"] for row in commits
    )
    assert {1} == {row["added_rows"] for row in commits if row["type"] == "table.committed"}
    objects = landed.load_table("log.objects").scan().to_arrow().to_pylist()
    names = {".".join(row["path"]): row["status"] for row in objects if row["kind"] == "table" and row["to_position"] is None}
    assert {
        "lake.sales.all_orders": "live",
        "lake.sales.returns": "live",
        "lake.sales.drafts": "dropped",
        "lake.sales.eu.stock": "live",
    } == names
    assert json.loads(jobs.run(server, "verify", "--json"))["ok"]
    page = pieces((ROOT / "docs" / "how-to" / "pipeline.md").read_text())["read landed tables"].replace(CATALOG_URI, server.catalog_uri)
    shown = subprocess.run([sys.executable, "-c", page], capture_output=True, text=True, check=True, timeout=SECONDS_MAX).stdout
    assert "added_rows: int64" in shown


@pytest.mark.parametrize(("table", "engine"), [("scan_reports", "spark 4.1.4"), ("commit_reports", "spark 4.1.4")])
def test_metrics_reports_are_landed_once(server: Icecore, table: str, engine: str) -> None:
    """By the two jobs of the test before: those of Spark, and each of the others. Those of the pipeline's warehouse are left out."""
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system").load_table(f"log.{table}").scan().to_arrow().to_pylist()
    assert [*range(REPORTS)] == sorted(row["snapshot_id"] for row in landed if row["engine"] == HOSTILE_ENGINE)
    [of_spark] = [row for row in landed if row["engine"] == engine]
    assert "anonymous" == of_spark["actor"]
    numbers = ("planning_seconds", "data_files", "bytes", "scanned_data_manifests") if table == "scan_reports" else ("seconds", "attempts")
    assert all(of_spark[name] > 0 for name in numbers), of_spark


def test_trino_reads_the_views(server: Icecore, scratch: Path) -> None:
    """All of them, in a catalog called `icecore`."""
    address = {"iceberg.rest-catalog.uri": server.catalog_uri, "iceberg.rest-catalog.warehouse": "system"}
    own = {**properties(pieces()["trino files"]), **address}
    with trino(scratch / "trino", {"icecore": own}) as engine:
        found = {view: engine.sql(f"SELECT * FROM icecore.log.{view}") for view in VIEWS}
    tables = {name for *_, name in found["live_tables"]}
    assert {"all_orders", "returns", "stock"} == tables
    assert {"unused_tables"} == {view for view, rows in found.items() if not rows}
    rates = {(row[0], row[5]) for row in found["writer_conflicts"]}
    assert {("spark 4.1.4", 0.0), (HOSTILE_ENGINE, 0.5)} == rates
    excess = {row[3]: row[-1] for row in found["small_files"]}
    assert (2, 3) == (excess["all_orders"], excess["returns"])


def test_a_browser_shows_the_report(server: Icecore, jobs: PipelineJobs, scratch: Path) -> None:
    """With its plots, with the name of an engine as text, and without another file or address."""
    page = scratch / "report.html"
    assert f"Wrote {page}" in jobs.run(server, "report", "--output", str(page))
    picture, profile = scratch / "report.png", scratch / "browser"
    flags = [*FLAGS, f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1100,3600"]
    shown = subprocess.run(
        [chromium(), *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=SECONDS_MAX, check=True
    ).stdout
    assert HOSTILE_ENGINE.replace("<", "&lt;").replace(">", "&gt;") in shown
    assert "<title>Icecore report</title>" in shown, "the script in the name has not run"
    subprocess.run(
        [chromium(), *flags, f"--screenshot={picture}", page.as_uri()], timeout=SECONDS_MAX, check=True, stderr=subprocess.DEVNULL
    )
    blue, white = json.loads(python_module("tests.acceptance.picture_colours", str(picture), "1f6feb", "ffffff").stdout)
    assert 0.01 < blue < 0.5, "the bars of the plots"
    assert 0.5 < white < 0.99


def test_tables_of_another_database_are_not_continued(server: Icecore, jobs: PipelineJobs, scratch: Path) -> None:
    """Its new events may be at positions that the tables already have."""
    (scratch / "other").mkdir()
    with icecore(scratch / "other data") as other:
        other.create_warehouse("system", {"type": "local", "directory": str(scratch / "other")})
        errors = jobs.run(other, "ingest", "--uri", server.catalog_uri, code=1)
    assert "is not that of the log: the catalog of the tables has another database" in errors


def test_the_report_needs_a_landed_log(server: Icecore, jobs: PipelineJobs, scratch: Path) -> None:
    """And a folder for its file."""
    (scratch / "empty").mkdir()
    server.create_warehouse("empty", {"type": "local", "directory": str(scratch / "empty")})
    errors = jobs.run(server, "report", "--output", str(scratch / "none.html"), "--warehouse", "empty", code=2)
    assert "The log has not been landed in the warehouse empty: run icecore pipeline ingest first" in errors
    assert not (scratch / "none.html").exists()
    assert "its folder does not exist" in jobs.run(server, "report", "--output", str(scratch / "missing" / "r.html"), code=2)


def test_past_states_are_those_of_the_catalog(server: Icecore, jobs: PipelineJobs) -> None:
    """Also after a namespace was moved, which is no event of the tables in it."""
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system")
    head = int(landed.load_table("log.events").properties["icecore.last-summary-value"])
    positions = sorted({*random.Random(17).sample(range(FIRST_POSITION, head), 6), head})
    found = jobs.call(server, "tables_at", positions)
    for position in positions:
        assert tables_of(server, position) == [row[1:] for row in found[str(position)] if row[1][0] not in ("log", "other")]
    assert any("[archive, sales, eu]" in line and "stock" in line for line in found["documented"]), found["documented"]
    assert ["archive", "sales", "eu", "stock"] in [path for path, _ in tables_of(server, head)]


def tables_of(server: Icecore, point: int | str) -> list[list[Any]]:
    """The tables of the warehouse `lake` as of a position or a time."""
    past = RestCatalog("past", uri=server.catalog_uri, warehouse=f"lake@{point}")
    namespaces = [*past.list_namespaces()]
    for namespace in namespaces:
        namespaces += past.list_namespaces(namespace)
    names = [name for namespace in namespaces for name in past.list_tables(namespace)]
    return sorted([[*name], past.load_table(name).metadata_location] for name in names)


def test_verify_divides_the_streams(server: Icecore, jobs: PipelineJobs) -> None:
    """Into parts of a few events each, and the chain into pieces: every stream is compared once."""
    found = jobs.call(server, "verify_in_parts", 7)
    assert found["parts"] > 2
    assert [] == found["differences"]


def test_landed_tables_are_maintained_and_continued(server: Icecore, jobs: PipelineJobs) -> None:
    """By the statements of docs/how-to/pipeline.md. The position of a table outlives the snapshots that brought it."""
    table = RestCatalog("lake", uri=server.catalog_uri, warehouse="lake").load_table("archive.sales.returns")
    table.append(pa.table({"id": [99]}))
    found = jobs.call(server, "maintain_landed_tables", "system")
    assert found["data_files_removed"] > 0
    assert found["snapshots"] < found["snapshots_before"]
    assert found["landed"] > 0
    assert [found["head"]] * 3 == [found["rows"], found["positions"], found["last_position"]]


def test_transforms_on_small_data(tmp_path: Path) -> None:
    """In a process that has PySpark."""
    done = python_module("tests.acceptance.pipeline_transforms", str(tmp_path / "landed"))
    assert [f"{check.__name__} passed" for check in CHECKS] == [line for line in done.stdout.splitlines() if line.endswith(" passed")], (
        done.stderr[-4000:]
    )


@pytest.mark.parametrize(
    ("number", "option", "code"), [(signal.SIGINT, "", 130), (signal.SIGTERM, "", 143), (signal.SIGINT, "--follow", 0)]
)
def test_a_job_ends_with_the_code_of_its_signal(server: Icecore, scratch: Path, number: signal.Signals, option: str, code: int) -> None:
    """In the middle of its landing, without a trace. The whole group gets it, as from a terminal."""
    name = f"ended-{number.name}{option}"
    (scratch / name).mkdir()
    server.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
    job = start(server, "ingest", "--warehouse", name, "--batch-events", "2", *filter(None, [option]))
    assert job.stderr is not None
    before = list(itertools.takewhile(lambda line: "landed" not in line, job.stderr))
    os.killpg(job.pid, number)
    output, errors = job.communicate(timeout=SECONDS_MAX)
    assert code == job.returncode, errors[-4000:]
    assert "Traceback" not in "".join(before) + errors, errors[-4000:]
    assert ("events: position" in output) == (code == 0)


def test_without_pyspark_the_extra_is_named(server: Icecore) -> None:
    """In one line."""
    command = [str(PROGRAM), "pipeline", "verify", "--data", str(server.data)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert (2, "", "icecore: The pipeline needs PySpark: pip install '.[spark]' in a checkout\n") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


def test_without_java_it_is_named(server: Icecore) -> None:
    """In the last line; Spark's own script says before which folder has none."""
    command = [str(PROGRAM), "pipeline", "verify", "--data", str(server.data)]
    environment = {**clean_environment(), **pipeline_environment(spark_4_1()), "JAVA_HOME": "/nowhere"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.splitlines()[-1].startswith(
        "icecore: Spark does not start: it needs Java 17 to 23, as the command java or in JAVA_HOME"
    )
    assert "Traceback" not in done.stderr


def test_verify_finds_what_differs(server: Icecore, jobs: PipelineJobs) -> None:
    """A row of a read model; and events that are missing in a piece of the chain, and at the border of two pieces."""
    with opened_database(Settings(data_dir=server.data)) as opened, psycopg.connect(opened.owner_dsn) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("update icecore.names set name = name || 'x' where to_position is null and name = 'stock'")
    [found] = json.loads(jobs.run(server, "verify", "--json", code=1))["differences"]
    assert "names" == found["table"]
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system").load_table("log.events")
    for position in (8, 11):
        landed.delete(EqualTo("position", position))  # type: ignore[call-arg]
    differences = jobs.call(server, "verify_in_parts", 7)["differences"]
    for position in (9, 12):
        assert f"events [position {position}] notification_id: expected {position - 1}, found {position}" in differences


def test_reports_of_another_database_are_not_continued(server: Icecore, jobs: PipelineJobs) -> None:
    """Or of one that was restored: its new reports would have positions that are landed."""
    with opened_database(Settings(data_dir=server.data)) as opened, psycopg.connect(opened.dsn) as connection:
        connection.execute("delete from icecore.metrics_reports where position > (select min(position) from icecore.metrics_reports)")
    errors = jobs.run(server, "ingest", code=1)
    assert "The table scan_reports is at position" in errors
    assert "the metrics reports end at 1: the catalog of the tables has another database" in errors
