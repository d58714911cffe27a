"""`icecore pipeline` as operators run it: two jobs at once land the log in Iceberg tables, and Spark verifies it."""

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.acceptance.pipeline_jobs import SECONDS_MAX, called, ended, python_module, start
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore, operate

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
        yield running


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
    assert {
        "lake.sales.all_orders": "live",
        "lake.sales.returns": "live",
        "lake.sales.drafts": "dropped",
        "lake.sales.eu.stock": "live",
    } == names
    assert json.loads(ended(start(server, "verify", "--json")))["ok"]


def test_past_states_are_those_of_the_catalog(server: Icecore) -> None:
    """Also after a namespace was moved, which is no event of the tables in it."""
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system")
    head = int(landed.load_table("log.events").properties["icecore.last-summary-value"])
    positions = sorted({*random.Random(17).sample(range(FIRST_POSITION, head), 6), head})
    found = called(server, "tables_at", positions)
    for position in positions:
        assert tables_of(server, position) == [row[1:] for row in found[str(position)] if row[1][0] != "log"]
    assert any("[archive, sales, eu]" in line and "stock" in line for line in found["documented"]), found["documented"]
    assert ["archive", "sales", "eu", "stock"] in [path for path, _ in tables_of(server, head)]


def tables_of(server: Icecore, position: int) -> list[list[Any]]:
    """The tables of the warehouse `lake` as of a position."""
    past = RestCatalog("past", uri=server.catalog_uri, warehouse=f"lake@{position}")
    namespaces = [*past.list_namespaces()]
    for namespace in namespaces:
        namespaces += past.list_namespaces(namespace)
    names = [name for namespace in namespaces for name in past.list_tables(namespace)]
    return sorted([[*name], past.load_table(name).metadata_location] for name in names)


def test_verify_divides_the_streams(server: Icecore) -> None:
    """Into parts of a few events each, and the chain into pieces: every stream is compared once."""
    found = called(server, "verify_in_parts", 7)
    assert found["parts"] > 2
    assert [] == found["differences"]


def test_transforms_on_small_data(tmp_path: Path) -> None:
    """In a process that has PySpark."""
    done = python_module("tests.acceptance.pipeline_transforms", str(tmp_path / "landed"))
    checks = ("check_commits", "check_sums", "check_changes", "check_objects", "check_facts", "check_runs", "check_merges")
    assert [f"{check} passed" for check in checks] == [line for line in done.stdout.splitlines() if line.endswith(" passed")], done.stderr[
        -4000:
    ]


def test_without_pyspark_the_extra_is_named(server: Icecore) -> None:
    """In one line."""
    command = [str(PROGRAM), "pipeline", "verify", "--data", str(server.data)]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert (2, "", "icecore: The pipeline needs PySpark: pip install 'icecore[spark]'\n") == (done.returncode, done.stdout, done.stderr)
