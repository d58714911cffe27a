"""Small commits while, 20 times, a table of 10,000 snapshots is registered and expired: what takes long is not done under the lock."""

import secrets
import time

from benchmarks import work
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.clients import ClientProcess
from benchmarks.findings import Finding, Json, at_most
from benchmarks.rest import RestCatalog
from benchmarks.seeding import write_metadata_file

TIMES = 20
SNAPSHOTS = 10_000
ALLOWANCE_MS = 50
_WRITERS = 4
_RATE_EACH = 25
_QUIET_SECONDS = 10.0
# Of small commits around each large pair: long enough to hold one.
_SLICE_SECONDS = 3.0


def run(bench: Bench) -> list[Finding]:
    with bench.catalog("beside_large") as catalog:
        tables = []
        for number in range(_WRITERS):
            tables.append(f"small_{number}")
            catalog.create_table(NAMESPACE, tables[-1])
        folder = bench.cluster.directory / "beside_large-files"
        files = [write_metadata_file(folder / f"large_{secrets.token_hex(4)}", SNAPSHOTS) for _ in range(TIMES)]
        given = {"tables": tables, "rate": _RATE_EACH}
        bench.write(catalog, "post_at_rate", clients=_WRITERS, seconds=2.0, **given)
        quiet = bench.write(catalog, "post_at_rate", clients=_WRITERS, seconds=_QUIET_SECONDS, **given)
        job = bench.write_job(catalog, "post_at_rate", clients=_WRITERS, seconds=_SLICE_SECONDS, **given)
        slowest, p99s, seconds = _beside(bench.client, job, catalog, files)
    over = slowest - quiet["p99_ms"]
    details = {
        "quiet_p50_ms": round(quiet["p50_ms"], 1),
        "quiet_p99_ms": round(quiet["p99_ms"], 1),
        "slowest_ms": round(slowest, 1),
        "median_of_p99_ms": round(sorted(p99s)[len(p99s) // 2], 1),
        "large_seconds": [round(each, 2) for each in seconds],
    }
    return [Finding("slowest small commit over the quiet p99", over, "ms", at_most(ALLOWANCE_MS, "ms"), details=details)]


def _beside(client: ClientProcess, job: Json, catalog: RestCatalog, files: list[str]) -> tuple[float, list[float], list[float]]:
    """Registers and expires each file's table while small commits go on; their slowest, their p99s, how long each large pair took."""
    slowest, p99s, seconds = 0.0, list[float](), list[float]()
    for file in files:
        name = f"large_{secrets.token_hex(4)}"
        client.start(job)
        started = time.monotonic()
        catalog.register(NAMESPACE, name, file)
        metadata = catalog.load(NAMESPACE, name)["metadata"]
        old = [each["snapshot-id"] for each in metadata["snapshots"] if each["snapshot-id"] != metadata["current-snapshot-id"]]
        catalog.commit(NAMESPACE, name, work.expire_body(old))
        seconds.append(time.monotonic() - started)
        result = client.result()
        slowest = max(slowest, result["max_ms"])
        p99s.append(result["p99_ms"])
    return slowest, p99s, seconds
