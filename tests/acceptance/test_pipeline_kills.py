"""`icecore pipeline ingest` that is killed at random points, and started again: the tables are those of a landing that nothing interrupted.

The quick form kills twice, the long form (ICECORE_TEST_LONG=1) ten times.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import EqualTo

from tests.acceptance.catalog_changes import WAREHOUSE, change_tables, soft_deleting_warehouse
from tests.acceptance.pipeline_jobs import PipelineJobs, start
from tests.long_form import LONG
from tests.servers.icecore import Icecore, icecore, operate

KILLS, COMMITS, BATCH_EVENTS = (10, 600, 15) if LONG else (2, 80, 30)
LANDED_LINES_MAX = 8 if LONG else 5
"""Most commits of a job before it is killed."""
DELAY_SECONDS_MAX, START_SECONDS_MAX = 0.6, 15.0
"""After the last of these commits; of a job without one: it starts, or creates the tables."""
TABLES = ("events", "table_commits", "table_changes", "objects")

pytestmark = pytest.mark.timeout(5_400 if LONG else 900)


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """With changes of tables that are to be landed, and two warehouses for it."""
    with icecore(scratch / "data") as running:
        for name in ("system", "fresh", WAREHOUSE):
            (scratch / name).mkdir()
        for name in ("system", "fresh"):
            running.create_warehouse(name, {"type": "local", "directory": str(scratch / name)})
        soft_deleting_warehouse(running, str(scratch / WAREHOUSE))
        change_tables(running, ["sales", "stock"], tables=8, commits=COMMITS, clients=2, seed=1)
        yield running


def killed_ingest(server: Icecore, landed_lines: int, delay_seconds: float, *, whole_group: bool) -> int:
    """Starts the job and kills it once it has landed so often and the delay has passed. Returns its exit status.

    whole_group -- Java dies too, as when the machine fails. Otherwise it may finish the commit that it is making.
    """
    job = start(server, "ingest", "--batch-events", str(BATCH_EVENTS))
    try:
        assert job.stderr is not None
        lines = (line for line in job.stderr if "landed" in line)
        for _ in range(landed_lines):
            if next(lines, None) is None:
                break
        time.sleep(delay_seconds)
        if whole_group:
            os.killpg(job.pid, signal.SIGKILL)
        else:
            job.kill()
        return job.wait()
    finally:
        if not whole_group:
            # What it would still commit has been sent; a Java that outlives the test is of no use.
            time.sleep(1)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
        for pipe in (job.stdout, job.stderr):
            assert pipe is not None
            pipe.close()


def landed(server: Icecore, warehouse: str) -> RestCatalog:
    return RestCatalog("landed", uri=server.catalog_uri, warehouse=warehouse)


def positions(server: Icecore) -> dict[str, int]:
    """How far each table is that exists."""
    catalog = landed(server, "system")
    names = [name for name in TABLES if catalog.table_exists(f"log.{name}")]
    return {name: int(catalog.load_table(f"log.{name}").properties.get("icecore.last-summary-value", 0)) for name in names}


def rows(server: Icecore, warehouse: str, position: int) -> dict[str, "Counter[str]"]:
    """The rows of the landed tables that do not depend on the warehouse they are in: of the changed warehouse, and all events.

    `of_pipeline` marks the events of the warehouse that holds the tables.
    """
    catalog = landed(server, warehouse)
    found: dict[str, Counter[str]] = {}
    for name in TABLES:
        read: list[dict[str, Any]] = catalog.load_table(f"log.{name}").scan().to_arrow().to_pylist()
        if name == "events":
            kept = [{**row, "of_pipeline": None} for row in read if row["position"] <= position]
        else:
            kept = [row for row in read if (row.get("warehouse") or (row["path"] or [None])[0]) == WAREHOUSE]
        found[name] = Counter(map(repr, kept))
    return found


def differences(one: dict[str, "Counter[str]"], other: dict[str, "Counter[str]"]) -> list[str]:
    """Rows that only one of the two has, or has more often."""
    return [f"{name}: {row}" for name in TABLES for row in ((one[name] - other[name]) + (other[name] - one[name])).elements()]


def test_a_landing_that_was_killed_equals_a_fresh_one(server: Icecore, jobs: PipelineJobs) -> None:
    """Row by row. Then one row is removed from each table, and the same comparison finds the four."""
    drawn = random.Random(29)
    for number in range(KILLS):
        lines = drawn.randint(0, LANDED_LINES_MAX)
        delay_seconds = drawn.uniform(0, DELAY_SECONDS_MAX if lines else START_SECONDS_MAX)
        code = killed_ingest(server, lines, delay_seconds, whole_group=number % 2 == 0)
        assert -signal.SIGKILL == code, (lines, delay_seconds)
        print(f"killed {delay_seconds:.2f} s after {lines} commits: {positions(server)}")
    position = json.loads(jobs.run(server, "ingest", "--json"))["positions"]["events"]
    jobs.run(server, "ingest", "--warehouse", "fresh")
    fresh, killed = rows(server, "fresh", position), rows(server, "system", position)
    assert [] == differences(fresh, killed)
    assert position == killed["events"].total()
    log = [json.loads(line) for line in operate("log", "--json", "--data", str(server.data)).splitlines()]
    committed = [each for each in log if each["topic"] == "table.committed.v1" and each["name"][0] == WAREHOUSE]
    created = [each for each in log if each["topic"] == "table.created.v1" and each["name"][0] == WAREHOUSE]
    assert (COMMITS, COMMITS + len(created)) == (len(committed), killed["table_commits"].total())
    for name in TABLES:
        table = landed(server, "system").load_table(f"log.{name}")
        key = "from_position" if name == "objects" else "position"
        table.delete(EqualTo(key, committed[0]["position"] if name in ("events", "table_commits") else created[0]["position"]))  # type: ignore[call-arg]
    assert [*TABLES] == [each.partition(":")[0] for each in differences(fresh, rows(server, "system", position))]
