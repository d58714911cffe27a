"""The log landed from Postgres, from a Kafka topic and from exported files: the same rows, each once.

The quick form lands the beginning of the log from files and from Kafka, with gaps; the long form (ICECORE_TEST_LONG=1) all from each.
"""

import gzip
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from tests.acceptance.event_topics import make_topic, messages, position_of, publish_again
from tests.acceptance.pipeline_jobs import SECONDS_MAX, PipelineJobs, python_module, start
from tests.fixtures.readme import pieces
from tests.fixtures.waiting import wait_for
from tests.long_form import LONG
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore, operate
from tests.servers.kafka import KafkaBroker, kafka_broker
from tests.servers.paths import ROOT

pytestmark = pytest.mark.timeout(1_800)

from_all_sources = pytest.mark.skipif(not LONG, reason="takes five minutes: `make test-long` runs it")
PARTITIONS = 3
NOT_IN_CLOUD_EVENTS = ("state", "hash", "request_id", "context")
TABLES = ("events", "table_commits", "table_changes", "objects")
SYSTEM = "system"
"""The warehouse of the tables that are landed from Kafka."""


def sink(name: str, url: str, topic: str, **more: str) -> dict[str, str]:
    fields = {"TYPE": "kafka", "URL": url, "TOPIC": topic, "TIMEOUT_SECONDS": "5", **more}
    return {f"ICECORE_SINKS__{name.upper()}__{field}": value for field, value in fields.items()}


@pytest.fixture(scope="module")
def broker(scratch: Path) -> Iterator[KafkaBroker]:
    with kafka_broker(scratch / "kafka") as running:
        yield running


@pytest.fixture(scope="module")
def settings(broker: KafkaBroker) -> dict[str, str]:
    return sink("audit", broker.url, "icecore.events", PARTITIONS=str(PARTITIONS))


@pytest.fixture(scope="module")
def server(scratch: Path, settings: dict[str, str]) -> Iterator[Icecore]:
    """With one warehouse of landed tables for each source. Tables were renamed and dropped, and a namespace with a policy was moved."""
    with icecore(scratch / "data", environment=settings) as running:
        for name in (SYSTEM, "postgres", "files", "lake"):
            (scratch / name).mkdir()
            running.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
        catalog = RestCatalog("lake", uri=running.catalog_uri, warehouse="lake")
        catalog.create_namespace("sales", {"icecore.maintenance.min-input-files": "2", "a": "1"})
        catalog.update_namespace_properties("sales", removals={"a"}, updates={"b": "é"})
        for name in ("orders", "drafts"):
            table = catalog.create_table(f"sales.{name}", pa.schema([("id", pa.int64())]))
            for number in range(4):
                table.append(pa.table({"id": [number]}))
        catalog.rename_table("sales.orders", "sales.all_orders")
        catalog.drop_table("sales.drafts")
        catalog.create_namespace("archive")
        operate("namespace", "move", "lake", "sales", "archive.sales", "--data", str(running.data))
        yield running


@pytest.fixture(scope="module")
def head(server: Icecore) -> int:
    """The end of the log before anything is landed."""
    return server.position()


@pytest.fixture(scope="module")
def landed(server: Icecore, jobs: PipelineJobs, head: int, settings: dict[str, str], broker: KafkaBroker, scratch: Path) -> None:
    """All three, those of Kafka by two jobs, of which the first is killed. The topic repeats events."""
    wait_for(lambda: head <= max(map(position_of, messages(broker.url, "icecore.events"))))
    published = messages(broker.url, "icecore.events")
    # The ids of the few streams decide the partitions: all are used mostly, one alone hardly ever.
    assert 1 < len({message.partition() for message in published})
    publish_again(broker.url, "icecore.events", 1, published[::-2])
    config = scratch / "icecore.toml"
    config.write_text(f'[sinks.audit]\ntype = "kafka"\nurl = "{broker.url}"\ntopic = "icecore.events"\n')
    operate("sinks", "replay", "audit", "--from", "2", "--to", "9", "--data", str(server.data), "--config", str(config))
    killed = start(server, "ingest", "--from-kafka", "audit", "--batch-events", "6", settings=settings)
    wait_for(lambda: position(server, SYSTEM, "events") >= 12 or killed.poll() is not None, 400)
    killed.kill()
    killed.communicate()
    assert 12 <= position(server, SYSTEM, "events") < head
    report = json.loads(jobs.run(server, "ingest", "--from-kafka", "audit", "--json", settings=settings))
    assert head <= report["positions"]["events"]
    jobs.run(server, "ingest", "--warehouse", "postgres")
    export(server, scratch / "export", head)
    jobs.run(server, "ingest", "--warehouse", "files", "--from-files", str(scratch / "export"), "--batch-events", "20")


def export(server: Icecore, folder: Path, head: int) -> None:
    """Files in folders, one compressed; they overlap, and their names are not in the order of the log."""
    lines = exported(server, folder.parent)[:head]
    (folder / "2026" / "01").mkdir(parents=True)
    (folder / "z.ndjson").write_text("".join(lines[:11]), encoding="utf-8")
    with gzip.open(folder / "2026" / "01" / "m.ndjson.gz", "wt", encoding="utf-8") as file:
        file.write("".join(lines[8:15]))
    (folder / "2026" / "a.ndjson").write_text("".join(lines[15:]) + "\n", encoding="utf-8")


def exported(server: Icecore, folder: Path) -> list[str]:
    """What the documented export writes."""
    command = pieces((ROOT / "docs" / "how-to" / "pipeline.md").read_text())["export events"]
    path = os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))
    environment = {**clean_environment(), "PATH": path, "ICECORE_DATA_DIR": str(server.data)}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=folder, env=environment, check=True, timeout=SECONDS_MAX)
    with gzip.open(folder / "events.ndjson.gz", "rt", encoding="utf-8") as file:
        return file.readlines()


def position(server: Icecore, warehouse: str, table: str) -> int:
    try:
        loaded = RestCatalog("landed", uri=server.catalog_uri, warehouse=warehouse).load_table(f"log.{table}")
    except NoSuchTableError:
        return 0
    return int(loaded.properties.get("icecore.last-summary-value", 0))


def rows(server: Icecore, warehouse: str, table: str, head: int) -> list[dict[str, Any]]:
    """The rows up to a position of what is not in a warehouse of landed tables."""
    scan = RestCatalog("landed", uri=server.catalog_uri, warehouse=warehouse).load_table(f"log.{table}").scan()
    found = scan.to_arrow().to_pylist()
    counted = "from_position" if table == "objects" else "position"
    systems = {row["warehouse_id"] for row in found if row.get("path") and row["path"][0] in (SYSTEM, "postgres", "files")}
    kept = [row for row in found if row[counted] <= head and row["warehouse_id"] not in systems]
    if table == "events":
        kept = [{name: value for name, value in row.items() if name not in NOT_IN_CLOUD_EVENTS} for row in kept]
    return sorted(kept, key=lambda row: row[counted])


@from_all_sources
@pytest.mark.usefixtures("landed")
@pytest.mark.parametrize("warehouse", [SYSTEM, "files"])
@pytest.mark.parametrize("table", TABLES)
def test_the_rows_are_those_landed_from_postgres(server: Icecore, head: int, warehouse: str, table: str) -> None:
    expected = rows(server, "postgres", table, head)
    assert len(expected) >= 4
    assert expected == rows(server, warehouse, table, head)


@from_all_sources
@pytest.mark.usefixtures("landed")
@pytest.mark.parametrize("warehouse", [SYSTEM, "postgres", "files"])
def test_every_position_is_landed_once(server: Icecore, warehouse: str) -> None:
    events = RestCatalog("landed", uri=server.catalog_uri, warehouse=warehouse).load_table("log.events").scan().to_arrow().to_pylist()
    assert [*range(1, len(events) + 1)] == sorted(row["position"] for row in events)
    assert {warehouse == "postgres"} == {row["state"] is not None for row in events}


@from_all_sources
@pytest.mark.usefixtures("landed")
def test_maintenance_is_planned_from_copies_as_from_postgres(server: Icecore, jobs: PipelineJobs) -> None:
    """Also by the policy of a namespace that was moved."""
    plans = [json.loads(jobs.run(server, "maintain", "--json", "--warehouse", name))["plan"] for name in ("postgres", SYSTEM)]
    of_lake = [[run for run in plan if run["table"].startswith("lake.")] for plan in plans]
    assert [("rewrite_data_files", "lake.archive.sales.all_orders")] == [(run["procedure"], run["table"]) for run in of_lake[0]]
    assert of_lake[0] == of_lake[1]


@from_all_sources
@pytest.mark.usefixtures("landed")
def test_what_needs_stored_rows_says_that_copies_have_none(server: Icecore, jobs: PipelineJobs) -> None:
    missing = "needs the stored rows of events, which only Postgres has; those from position 1 on were landed from Kafka or files."
    assert f"icecore: verify {missing}" in jobs.run(server, "verify", code=1)
    assert f"StoredRowsMissingError: tables_at {missing}" in jobs.failed_call(server, "tables_at", [1])


@from_all_sources
@pytest.mark.usefixtures("landed")
def test_tables_landed_from_one_source_are_continued_from_another(server: Icecore, jobs: PipelineJobs, settings: dict[str, str]) -> None:
    RestCatalog("lake", uri=server.catalog_uri, warehouse="lake").create_namespace("late")
    late = server.position()
    jobs.run(server, "ingest", "--warehouse", "files")
    jobs.run(server, "ingest", "--warehouse", "postgres", "--from-kafka", "audit", settings=settings)
    for warehouse in ("files", "postgres"):
        events = RestCatalog("landed", uri=server.catalog_uri, warehouse=warehouse).load_table("log.events").scan().to_arrow().to_pylist()
        assert len(events) >= late
        assert [*range(1, len(events) + 1)] == sorted(row["position"] for row in events)


def test_a_missing_event_is_refused_by_its_position(
    server: Icecore, jobs: PipelineJobs, broker: KafkaBroker, scratch: Path, head: int
) -> None:
    """Those before it are landed. In a topic it may still come, so it is waited for; here the messages are also dated too early."""
    lines = exported(server, scratch)[:head]
    (scratch / "gap").mkdir()
    (scratch / "gap" / "all.ndjson").write_text("".join(lines[:13] + lines[14:]), encoding="utf-8")
    (scratch / "gapped").mkdir()
    server.create_warehouse("gapped", {"type": "local", "directory": str(scratch / "gapped")})
    place = ("--warehouse", "gapped")
    errors = jobs.run(server, "ingest", *place, "--from-files", str(scratch / "gap"), code=1)
    assert f"icecore: The files {scratch / 'gap'}: the event at position 14 is missing, and that at 15 is there." in errors
    assert 13 == position(server, "gapped", "events")

    make_topic(broker.url, "gapped", 2)
    whole = wait_for(lambda: with_positions(broker, head))
    yesterday = int((time.time() - 24 * 3_600) * 1_000)
    present = [message for number, message in sorted(whole.items()) if number not in (14, 17)]
    publish_again(broker.url, "gapped", 0, present, time_ms=yesterday)
    publish_again(broker.url, "gapped", 1, [whole[14]], time_ms=yesterday)
    publish_again(broker.url, "gapped", 1, [whole[head]])
    errors = jobs.run(server, "ingest", *place, "--from-kafka", "gapped", code=1, settings=sink("gapped", broker.url, "gapped"))
    assert "icecore: The topic gapped: the event at position 17 is missing, and that at 18 is there." in errors
    assert 16 == position(server, "gapped", "events")


def with_positions(broker: KafkaBroker, head: int) -> dict[int, Any]:
    found = {position_of(message): message for message in messages(broker.url, "icecore.events")}
    return found if head in found else {}


def test_a_source_that_cannot_be_read_is_said_in_a_line(server: Icecore, jobs: PipelineJobs, scratch: Path, broker: KafkaBroker) -> None:
    """Before anything is landed."""
    (scratch / "stored.ndjson").write_text(operate("log", "--json", "--data", str(server.data)), encoding="utf-8")
    away = {**sink("away", "127.0.0.1:9", "t", TIMEOUT_SECONDS="2", USER="u", PASSWORD="hunter2"), **sink("none", broker.url, "none")}
    expected = {
        ("--from-kafka", "away"): "Kafka is unreachable or refuses the connection: connection refused at 127.0.0.1:9",
        ("--from-kafka", "none"): "Kafka has no topic none, or does not show it",
        ("--from-files", str(scratch / "nowhere")): f"The files {scratch / 'nowhere'} do not exist",
        ("--from-files", str(scratch / "stored.ndjson")): (
            f"The files {scratch / 'stored.ndjson'}: file:{scratch / 'stored.ndjson'}: not an event of Icecore"
        ),
    }
    for options, message in expected.items():
        errors = jobs.run(server, "ingest", *options, "--warehouse", "lake", settings=away, code=1)
        assert f"icecore: {message}" == errors.splitlines()[-1]
        assert "hunter2" not in errors
    assert 0 == position(server, "lake", "events")


def test_copies_on_small_data() -> None:
    """In a process that has PySpark."""
    done = python_module("tests.acceptance.pipeline_copies")
    checks = ("check_order", "check_of_pipeline", "check_gaps", "check_refused")
    assert [f"{check} passed" for check in checks] == done.stdout.splitlines(), done.stderr[-4000:]


def test_options_that_name_no_whole_copy_are_refused(server: Icecore, jobs: PipelineJobs) -> None:
    """Without Spark."""
    filtered = {**sink("some", "127.0.0.1:9", "t", TYPES="table.*"), "ICECORE_SINKS__OUT__TYPE": "stdout"}
    expected = {
        ("--from-kafka", "some"): "The sink some has filters, so its topic does not have the whole log",
        ("--from-kafka", "out"): "--from-kafka must name a sink of type kafka in the settings: out is not one",
        ("--from-kafka", "other"): "--from-kafka must name a sink of type kafka in the settings: other is not one",
        ("--from-kafka", "some", "--from-files", "x"): "--from-kafka and --from-files exclude each other",
    }
    for options, message in expected.items():
        errors = jobs.run(server, "ingest", *options, settings=filtered, code=2)
        assert f"icecore: {message}" == errors.splitlines()[-1]
