"""32 writers append to one table (load, commit with `assert-ref-snapshot-id`, immediate retry on 409) against one writer.

Measured with 1 worker and with 2. Every success must be one version and one metadata file. There is no 5xx, and no writer starves.
"""

import secrets
from pathlib import Path

from benchmarks.bench import NAMESPACE, WRITERS, Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, Json, at_least, at_most, of_ratio
from benchmarks.load_hot import summary
from benchmarks.rest import RestCatalog

GOAL = at_least(0.8)
SNAPSHOTS_MAX = 100
# Longer blocks than elsewhere, so that differences between writers' shares are not random.
_BLOCK_FACTOR = 4
# The slowest writer's share of the mean.
STARVED_BELOW = 0.25


def run(bench: Bench) -> list[Finding]:
    findings: list[Finding] = []
    for workers in (1,) if bench.foreign is not None else (1, 2):
        with bench.catalog("contended", workers=workers) as catalog:
            findings += _run(bench, catalog, workers)
    return findings


def _run(bench: Bench, catalog: RestCatalog, workers: int) -> list[Finding]:
    alone, shared = (_table(catalog) for _ in range(2))
    first = _sequence_number(catalog, shared)
    given: Json = {"seconds": bench.block_seconds * _BLOCK_FACTOR, "snapshots_max": SNAPSHOTS_MAX}
    blocks = alternate(
        bench.rounds // 2,
        {
            "32 writers": lambda: bench.write(catalog, "append_shared", table=shared, **given),
            "alone": lambda: bench.write(catalog, "append_shared", clients=1, table=alone, **given),
        },
    )
    many = blocks["32 writers"]
    found = ratio([block["rate"] for block in many], [block["rate"] for block in blocks["alone"]])
    successes = sum(block["successes"] for block in many)
    by_client = [sum(counts) for counts in zip(*(block["successes_by_client"] for block in many), strict=True)]
    statuses = _sum_statuses(many)
    details = {
        "32 writers": summary(many),
        "alone": summary(blocks["alone"]),
        "statuses": statuses,
        "refused_share": round(1 - successes / sum(statuses.values()), 3),
        "successes_by_client": by_client,
    }
    name = f"{workers} worker{'s' if workers > 1 else ''}"
    locations = [location for block in many for location in block["locations"]]
    wrong = _wrong(catalog, shared, first, successes, locations)
    errors = sum(count for status, count in statuses.items() if status.startswith("5"))
    return [
        of_ratio(f"{name}: successes beside one writer", found, GOAL, details),
        Finding(f"{name}: slowest writer's share of the mean", min(by_client) / (successes / WRITERS), "", at_least(STARVED_BELOW, "")),
        Finding(f"{name}: 5xx", errors, "", at_most(0, "")),
        Finding(f"{name}: successes that are not one version and one file", wrong, "", at_most(0, "")),
    ]


def _table(catalog: RestCatalog) -> str:
    """A new table with its full history."""
    name = f"shared_{secrets.token_hex(4)}"
    catalog.create_table(NAMESPACE, name)
    catalog.add_snapshots(NAMESPACE, name, SNAPSHOTS_MAX)
    return name


def _sequence_number(catalog: RestCatalog, table: str) -> int:
    number: int = catalog.load(NAMESPACE, table)["metadata"]["last-sequence-number"]
    return number


def _wrong(catalog: RestCatalog, table: str, first: int, successes: int, locations: list[str]) -> int:
    """How the table differs from one version and one file per success."""
    versions = _sequence_number(catalog, table) - first
    distinct = set(locations)
    files = [Path("/" + location.removeprefix("file:").lstrip("/")) for location in distinct if location.startswith("file:")]
    missing = sum(not file.exists() for file in files)
    return abs(versions - successes) + (len(locations) - len(distinct)) + missing


def _sum_statuses(blocks: list[Json]) -> dict[str, int]:
    statuses: dict[str, int] = {}
    for block in blocks:
        for status, count in block["statuses"].items():
            statuses[status] = statuses.get(status, 0) + count
    return statuses
