"""`icecore pipeline maintain` as operators run it: fewer files and snapshots, the same rows, and no commit of another writer is lost."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Table

from tests.acceptance.pipeline_jobs import PipelineJobs
from tests.long_form import LONG
from tests.servers.icecore import Icecore, icecore, operate

pytestmark = pytest.mark.timeout(1_200)

FILES, SNAPSHOTS = (500, 300) if LONG else (60, 60)
SCHEMA = pa.schema([("id", pa.int64())])
DAY_SECONDS = 24 * 3_600
# The first snapshots are old as soon as they are there.
EXPIRES = {"history.expire.max-snapshot-age-ms": "1"}


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """`orders` has many small files. The other tables are to be left alone, each for its reason."""
    with icecore(scratch / "data") as running:
        for name in ("system", "lake"):
            (scratch / name).mkdir()
            running.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
        catalog = lake(running)
        catalog.create_namespace("sales", {"icecore.maintenance.min-input-files": "6"})
        orders = catalog.create_table("sales.orders", SCHEMA, properties=EXPIRES)
        for number in range(SNAPSHOTS):
            orders.append(pa.table({"id": [number]}))
            if number == 0:
                orders.manage_snapshots().create_tag(snapshot(orders), "kept").commit()
        for name, properties in (("protected", {}), ("dropped", {}), ("invalid", {"icecore.maintenance.min-input-files": "few"})):
            table = catalog.create_table(f"sales.{name}", SCHEMA, properties=properties)
            for number in range(7):
                table.append(pa.table({"id": [number]}))
        fill(orders, range(SNAPSHOTS, FILES))
        yield running


def lake(server: Icecore) -> RestCatalog:
    return RestCatalog("lake", uri=server.catalog_uri, warehouse="lake")


def snapshot(table: Table) -> int:
    current = table.current_snapshot()
    assert current is not None
    return current.snapshot_id


def fill(table: Table, numbers: range) -> None:
    """More files, ten in a commit."""
    for first in range(numbers.start, numbers.stop, 10):
        with table.transaction() as transaction:
            for number in range(first, min(first + 10, numbers.stop)):
                transaction.append(pa.table({"id": [number]}))


def maintained(jobs: PipelineJobs, server: Icecore, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(jobs.run(server, "maintain", "--json", *options).splitlines()[-1])
    return found


def procedures(report: dict[str, Any], part: str, table: str) -> list[str]:
    return [each["procedure"] for each in report[part] if each["table"] == f"lake.sales.{table}"]


def log(server: Icecore) -> list[Any]:
    return [json.loads(line) for line in operate("log", "--json", "--data", str(server.data)).splitlines()]


def events(server: Icecore) -> list[Any]:
    return [event for event in log(server) if event["topic"].startswith("maintenance.")]


def created_event(server: Icecore, name: str) -> Any:
    return next(event for event in log(server) if event["topic"] == "table.created.v1" and event["name"][-1] == name)


class Writer:
    """Appends rows to a table until it is stopped."""

    def __init__(self, server: Icecore, name: str) -> None:
        self.numbers: list[int] = []
        self._table = lake(server).load_table(name)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _write(self) -> None:
        number = 1_000_000
        while not self._stopped.wait(0.3):
            try:
                self._table.append(pa.table({"id": [number]}))
            except (CommitFailedException, ValidationException):
                # The second one: the snapshot on which the rows were based has expired meanwhile.
                self._table = self._table.refresh()
                continue
            self.numbers.append(number)
            number += 1


def test_a_table_is_maintained_while_another_writer_commits(server: Icecore, jobs: PipelineJobs) -> None:
    """The plan comes from the landed log: a table that was dropped or protected since is skipped, or left alone."""
    assert "The log has not been landed in the warehouse system: run icecore pipeline ingest first" in jobs.run(server, "maintain", code=2)
    jobs.run(server, "ingest")
    catalog = lake(server)
    catalog.drop_table("sales.dropped")
    shadow(server, jobs)
    operate("table", "protect", "lake:sales.protected", "--data", str(server.data))
    assert FILES == catalog.load_table("sales.orders").inspect.files().num_rows
    with Writer(server, "sales.orders") as writer:
        report = maintained(jobs, server, "--run")
    assert ["rewrite_data_files", "rewrite_manifests", "expire_snapshots"] == procedures(report, "runs", "orders")
    assert {"success"} == {each["outcome"] for each in report["runs"]}, report["runs"]
    assert {"lake.sales.dropped", "lake.sales.protected"} == {each["table"] for each in report["skipped"]}
    assert [{"table": "lake.sales.invalid", "reason": INVALID}] == report["left-alone"]
    table = catalog.load_table("sales.orders")
    rows = table.scan().to_arrow()["id"].to_pylist()
    assert sorted([*range(FILES), *writer.numbers]) == sorted(rows)
    assert len(writer.numbers) > 0
    assert table.inspect.files().num_rows <= 1 + len(writer.numbers)
    assert len(table.metadata.snapshots) <= 3 + len(writer.numbers)
    assert [0] == table.scan(snapshot_id=table.metadata.refs["kept"].snapshot_id).to_arrow()["id"].to_pylist()
    assert 7 == catalog.load_table("sales.protected").inspect.files().num_rows
    finished = [event["data"] for event in events(server) if event["topic"] == "maintenance.finished.v1"]
    assert [each["measured"] for each in report["runs"]] == [each["measured"] for each in finished]
    assert "no difference" in operate("verify", "--data", str(server.data))
    if LONG:
        nothing_is_planned_again(server, jobs)


INVALID = "Invalid icecore.maintenance.min-input-files: 'few' is not a whole number from 2 to 2147483647"


def shadow(server: Icecore, jobs: PipelineJobs) -> None:
    """Nothing is changed, and what would run is recorded."""
    report = maintained(jobs, server, "--shadow")
    assert ([], FILES) == (report["runs"], lake(server).load_table("sales.orders").inspect.files().num_rows)
    recorded = [event["data"] for event in events(server)]
    assert {True} == {each["shadow"] for each in recorded}
    orders = created_event(server, "orders")["stream-id"]
    assert ["rewrite_data_files", "rewrite_manifests", "expire_snapshots"] == [
        each["procedure"] for each in recorded if each["table-id"] == orders
    ]


def nothing_is_planned_again(server: Icecore, jobs: PipelineJobs) -> None:
    """Once it is landed. Without --run nothing is changed."""
    jobs.run(server, "ingest")
    before = len(events(server))
    report = maintained(jobs, server)
    assert "rewrite_manifests" not in procedures(report, "plan", "orders")
    assert ([], before) == (report["runs"], len(events(server)))


def test_only_old_files_that_nothing_refers_to_are_removed(server: Icecore, jobs: PipelineJobs) -> None:
    """A metadata file whose commit was refused, too. Files of today may belong to a commit that is not there yet."""
    catalog = lake(server)
    table = catalog.load_table("sales.orders")
    folder = Path(table.location().removeprefix("file://"))
    old = [folder / "data" / "orphan.parquet", folder / "metadata" / "00001-refused.metadata.json"]
    young = folder / "data" / "young.parquet"
    outside = folder.parent / "outside.parquet"
    for file in (*old, young, outside):
        file.write_bytes(b"x")
    for file in (*old, outside):
        os.utime(file, (time.time() - 3 * DAY_SECONDS,) * 2)
    created = created_event(server, "orders")
    identity = {"table-id": created["stream-id"], "warehouse-id": created["warehouse-id"]}
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    expected = [["success", {"files-deleted": count}, None] for count in (2, 0)]
    assert expected == jobs.call(server, "remove_orphan_files", identity)
    assert ([False, False], True, True) == ([file.exists() for file in old], young.exists(), outside.exists())
    assert rows == sorted(catalog.load_table("sales.orders").scan().to_arrow()["id"].to_pylist())


def test_a_catalog_that_is_away_is_said_in_a_line(server: Icecore, jobs: PipelineJobs) -> None:
    errors = jobs.run(server, "maintain", "--run", "--uri", "http://127.0.0.1:9/catalog", code=5)
    assert errors.splitlines()[-1].startswith("icecore: Spark failed: ")
    assert "Connect" in errors.splitlines()[-1]
