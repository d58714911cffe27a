"""Many changes of many tables by clients, PyIceberg and Spark: what `icecore pipeline ingest` lands, compared with log and catalog.

The quick form has 150 commits on 12 tables, the long form (ICECORE_TEST_LONG=1) 20,000 on more than 200.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType

from tests.acceptance.catalog_changes import WAREHOUSE, Acknowledged, change_tables, soft_deleting_warehouse
from tests.acceptance.pipeline_jobs import PipelineJobs
from tests.acceptance.summary_members import SUMS, TOTALS
from tests.acceptance.test_pipeline import tables_of
from tests.long_form import LONG
from tests.servers.icecore import Icecore, icecore, operate
from tests.servers.spark import catalog_settings, spark_4_1, spark_shell

TABLES = 200 if LONG else 10
"""Of the clients; PyIceberg and Spark have some of their own."""
CLIENT_COMMITS, PYICEBERG_COMMITS, SPARK_COMMITS = (19_000, 700, 300) if LONG else (120, 18, 12)
CLIENTS = 4
TIMES = 5
NAMESPACES = ("n0", "n1", "n2", "n3")
MOVED = ("n0", "n1", "n2", "archive%1Fn3")
COLUMN_EVERY, RENAME_EVERY = 6, 9
"""Every how many commits PyIceberg and Spark add a column instead of a row, and rename their table."""
TABLE_EVERY = 50
"""After how many commits PyIceberg takes a new table."""
WITH_METADATA = ("table.created.v1", "table.committed.v1")

pytestmark = pytest.mark.timeout(7_200 if LONG else 900)


@dataclass(frozen=True)
class Changed:
    """A server whose log has been landed. log -- its events after the changes, before anything was landed."""

    server: Icecore
    acknowledged: Acknowledged
    log: list[dict[str, Any]]


@pytest.fixture(scope="module")
def changed(scratch: Path, jobs: PipelineJobs) -> Iterator[Changed]:
    with icecore(scratch / "data") as server:
        for name in ("system", WAREHOUSE):
            (scratch / name).mkdir()
        server.create_warehouse("system", {"type": "local", "directory": str(scratch / "system")})
        soft_deleting_warehouse(server, str(scratch / WAREHOUSE))
        started = time.monotonic()
        acknowledged = change(server, scratch)
        made = time.monotonic()
        log = [json.loads(line) for line in operate("log", "--json", "--data", str(server.data)).splitlines()]
        read = time.monotonic()
        assert len(log) <= json.loads(jobs.run(server, "ingest", "--json"))["events"]
        print(f"{len(log)} events: made in {made - started:.0f} s, landed in {time.monotonic() - read:.0f} s")
        print(sorted(Counter(event["topic"] for event in log).items()))
        yield Changed(server, acknowledged, log)


def change(server: Icecore, scratch: Path) -> Acknowledged:
    """All writers at once. Half-way, a namespace with tables is moved."""
    half = {"tables": TABLES // 2, "commits": CLIENT_COMMITS // 2, "clients": CLIENTS}
    with ThreadPoolExecutor(2) as pool:
        catalog = RestCatalog(WAREHOUSE, uri=server.catalog_uri, warehouse=WAREHOUSE)
        catalog.create_namespace("engines")
        engines = [pool.submit(pyiceberg_changes, catalog), pool.submit(spark_changes, server, scratch / "spark")]
        acknowledged = change_tables(server, NAMESPACES, seed=1, **half)
        catalog.create_namespace("archive")
        operate("namespace", "move", WAREHOUSE, "n3", "archive.n3", "--data", str(server.data))
        acknowledged.include(change_tables(server, MOVED, seed=2, **half))
        for each in engines:
            acknowledged.renames += each.result()
    return acknowledged


def pyiceberg_changes(catalog: RestCatalog) -> int:
    """The number of renames."""
    renames = 0
    for number in range(PYICEBERG_COMMITS):
        if number % TABLE_EVERY == 0:
            # Each append reads and writes the list of all manifests.
            table = catalog.create_table(f"engines.arrow_{number}", pa.schema([("id", pa.int64())]))
        if number % COLUMN_EVERY:
            table.append(pa.table({"id": [number]}))
        else:
            table.update_schema().add_column(f"c{number}", LongType()).commit()
        if number % RENAME_EVERY == RENAME_EVERY - 1:
            renames += 1
            table = catalog.rename_table(table.name(), f"engines.renamed_{renames}")
    return renames


def spark_changes(server: Icecore, directory: Path) -> int:
    """The number of renames."""
    name, renames = "ice.engines.spark", 0
    with spark_shell(spark_4_1(), catalog_settings(server.catalog_uri, WAREHOUSE), directory) as spark:
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
        for number in range(SPARK_COMMITS):
            added = f"ALTER TABLE {name} ADD COLUMN c{number} BIGINT"
            spark.sql(f"INSERT INTO {name} (id) VALUES ({number})" if number % COLUMN_EVERY else added)
            if number % RENAME_EVERY == RENAME_EVERY - 1:
                renames += 1
                spark.sql(f"ALTER TABLE {name} RENAME TO engines.spark{renames}")
                name = f"ice.engines.spark{renames}"
    return renames


def expected_commits(log: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `table_commits` from the deltas of the log, which the pipeline does not read."""
    rows, currents, times = [], dict[str, int | None](), dict[str, int]()
    snapshots = dict[int, dict[str, Any]]()
    for event in log:
        if event["topic"] not in WITH_METADATA or event["name"][0] != WAREHOUSE:
            continue
        table, delta = event["stream-id"], event["data"].get("delta")
        parts = {} if delta is None else delta["parts"].get("snapshots", {"added": [], "removed": []})
        added = [part[1] for part in parts.get("added", [])]
        snapshots |= {each["snapshot-id"]: each for each in added}
        head = {} if delta is None else delta["head"]["set"]
        currents[table] = head.get("current-snapshot-id", currents.get(table))
        made_current = snapshots[head["current-snapshot-id"]] if "current-snapshot-id" in head else None
        summary = (made_current or (added[-1] if added else {})).get("summary", {})
        totals = made_current["summary"] if made_current else {}
        recorded_at = datetime.fromisoformat(event["recorded-at"])
        microseconds = round(recorded_at.replace(microsecond=0).timestamp()) * 1_000_000 + recorded_at.microsecond
        rows.append(
            {
                "position": event["position"],
                "version": event["version"],
                "recorded_at": recorded_at,
                "table_id": table,
                "warehouse_id": event["warehouse-id"],
                "warehouse": event["name"][0],
                "namespace": ".".join(event["name"][1:-1]),
                "name": event["name"][-1],
                "type": event["topic"].removesuffix(".v1"),
                "actor": event["actor"],
                "command_id": event["command-id"],
                "operation": summary.get("operation"),
                "current_snapshot_id": currents[table],
                "snapshots_added": len(added),
                "snapshots_removed": len(parts.get("removed", [])),
                **{name: sum(int(each["summary"].get(key, 0)) for each in added) for name, key in SUMS.items()},
                **{name: int(totals[key]) if key in totals else None for name, key in TOTALS.items()},
                "seconds_since_previous": microseconds / 1e6 - times[table] / 1e6 if table in times else None,
                "writer": " ".join(summary[key] for key in ("engine-name", "engine-version") if key in summary) or None,
            }
        )
        times[table] = microseconds
    return rows


def landed_commits(server: Icecore) -> list[dict[str, Any]]:
    """In the order of the log."""
    landed = RestCatalog("landed", uri=server.catalog_uri, warehouse="system").load_table("log.table_commits")
    rows: list[dict[str, Any]] = landed.scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: int(row["position"]))


def differing(expected: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]]) -> list[Any]:
    """What differs at a position: the values that were expected and that were found, by column; or rows that are missing or there twice."""
    wanted, landed = by_position(expected), by_position(found)
    wrong: list[Any] = []
    for position in sorted(wanted.keys() | landed.keys()):
        rows, others = wanted.get(position, []), landed.get(position, [])
        if len(rows) == len(others) == 1:
            columns = rows[0].keys() | others[0].keys()
            both = {name: (rows[0].get(name), others[0].get(name)) for name in columns if rows[0].get(name) != others[0].get(name)}
            wrong += [(position, both)] if both else []
        elif len(rows) != len(others):
            wrong.append((position, len(rows), len(others)))
    return wrong


def by_position(rows: Sequence[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["position"], []).append(row)
    return found


def test_the_log_has_what_was_acknowledged(changed: Changed) -> None:
    """Each commit of the clients once, with its snapshot and rows, and each rename, drop and undrop."""
    topics = Counter(event["topic"] for event in changed.log if event["name"][0] == WAREHOUSE)
    given = changed.acknowledged
    assert CLIENT_COMMITS + PYICEBERG_COMMITS + SPARK_COMMITS == topics["table.committed.v1"]
    assert (given.renames, given.drops, given.undrops, 1) == tuple(
        topics[topic] for topic in ("table.renamed.v1", "table.dropped.v1", "table.undropped.v1", "namespace.moved.v1")
    )
    assert min(given.renames, given.undrops) > 0
    tables = {table for table, _, _ in given.commits}
    rows = [row for row in landed_commits(changed.server) if row["table_id"] in tables and row["type"] == "table.committed"]
    appended = [(row["table_id"], row["current_snapshot_id"], row["added_rows"]) for row in rows if row["snapshots_added"]]
    assert Counter(each for each in given.commits if each[1] is not None) == Counter(appended)
    assert len(given.commits) == len(rows)


def test_earlier_states_are_those_of_the_catalog(changed: Changed, jobs: PipelineJobs) -> None:
    """At the times of random commits. They differ from one another."""
    commits = [event["recorded-at"].replace("+00:00", "Z") for event in changed.log if event["topic"] in WITH_METADATA]
    times = random.Random(7).sample(commits, TIMES)
    folded = jobs.call(changed.server, "tables_at_times", times)
    states = [tables_of(changed.server, each) for each in times]
    print([len(state) for state in states], "tables")
    assert states == [[row[1:] for row in folded[each] if row[1][0] != "log"] for each in times]
    assert TIMES == len({json.dumps(state) for state in states})


def test_table_commits_are_the_log_row_by_row(changed: Changed) -> None:
    """Then one row is removed, and the same comparison finds it."""
    expected = expected_commits(changed.log)
    assert [] == differing(expected, landed_commits(changed.server))
    assert any(str(row["writer"]).startswith("spark ") for row in expected)
    removed = random.Random(8).choice(expected)["position"]
    landed = RestCatalog("landed", uri=changed.server.catalog_uri, warehouse="system")
    landed.load_table("log.table_commits").delete(EqualTo("position", removed))  # type: ignore[call-arg]
    assert [(removed, 1, 0)] == differing(expected, landed_commits(changed.server))
