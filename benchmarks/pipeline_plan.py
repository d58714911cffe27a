"""A plan of maintenance for 10,000 tables from the landed tables alone, beside a listing of their manifests.

The listing is that of a sample of real tables on local files, times the number of tables: a lower bound for an object store.
"""

import time

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from benchmarks.bench import Bench
from benchmarks.findings import Finding
from benchmarks.pipeline import COMMITS, job, log_of

TABLES = 10_000
_TABLES_SMALL = 100
SAMPLE = 40
_TIMES = 3


def run(bench: Bench) -> list[Finding]:
    times, tables = min(bench.rounds, _TIMES), TABLES if bench.rounds > 1 else _TABLES_SMALL
    with log_of(bench, tables * (COMMITS + 1), warehouses=("system", "sampled")) as service:
        job(service, 2, "ingest")
        catalog = RestCatalog("sampled", uri=f"{service.uri}/catalog", warehouse="sampled")
        if not catalog.namespace_exists("sampled"):
            _make_sample(catalog)
        plans = [job(service, 2, "maintain", "--any-time") for _ in range(times)]
        listings = [_listing_seconds(catalog) for _ in range(times)]
    planned = {each["table-id"] for each in plans[0].report["plan"]}
    assert len(planned) == tables, f"{len(planned)} of {tables} tables are planned"
    listing = min(listings) / SAMPLE * tables
    details = {
        "plan_seconds": [round(each.seconds, 1) for each in plans],
        "listing_seconds_of_the_sample": [round(each, 2) for each in listings],
        "sampled_tables": SAMPLE,
        "manifests_per_table": COMMITS,
        "planned_tables": len(planned),
    }
    # The fastest listing against the slowest plan, so that load on the machine does not favour the plan.
    slowest = max(each.seconds for each in plans)
    return [Finding(f"seconds of a plan for {tables:,} tables beside a listing of their manifests", slowest / listing, details=details)]


def _make_sample(catalog: RestCatalog) -> None:
    catalog.create_namespace("sampled")
    for number in range(SAMPLE):
        table = catalog.create_table(f"sampled.t{number}", pa.schema([("id", pa.int64())]))
        for row in range(COMMITS):
            table.append(pa.table({"id": [row]}))


def _listing_seconds(catalog: RestCatalog) -> float:
    """Of loading each table, and reading its manifest list and manifests: what a plan without the log needs."""
    started = time.monotonic()
    for number in range(SAMPLE):
        table = catalog.load_table(f"sampled.t{number}")
        snapshot = table.current_snapshot()
        assert snapshot is not None
        files = sum(len(manifest.fetch_manifest_entry(table.io)) for manifest in snapshot.manifests(table.io))
        assert files == COMMITS
    return time.monotonic() - started
