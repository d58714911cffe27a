"""Small commits while a table of 10,000 snapshots is registered and expired 20 times: long work is not done under the append lock."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor

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
# Seconds of a slice of small commits. Slices are repeated until the large commits are done.
_SLICE_SECONDS = 0.5


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
        "statuses": quiet["statuses"],
        "large_seconds": [round(each, 2) for each in seconds],
    }
    return [Finding("slowest small commit over the quiet p99", over, "ms", at_most(ALLOWANCE_MS, "ms"), details=details)]


def _beside(client: ClientProcess, job: Json, catalog: RestCatalog, files: list[str]) -> tuple[float, list[float], list[float]]:
    """Registers and expires each file's table during small commits. Returns their slowest, their p99s, and the duration of each large
    pair.
    """
    slowest, p99s, seconds = 0.0, list[float](), list[float]()
    with ThreadPoolExecutor(1) as beside:
        for file in files:
            large = beside.submit(_register_and_expire, catalog, file)
            # A stall longer than a slice is counted in it, because its writers wait for their responses.
            while not large.done():
                result = client.do(job)
                slowest = max(slowest, result["max_ms"])
                p99s.append(result["p99_ms"])
            seconds.append(large.result())
    return slowest, p99s, seconds


def _register_and_expire(catalog: RestCatalog, file: str) -> float:
    """The durations of the two commits in seconds."""
    name = f"large_{secrets.token_hex(4)}"
    started = time.monotonic()
    catalog.register(NAMESPACE, name, file)
    registered = time.monotonic()
    metadata = catalog.load(NAMESPACE, name)["metadata"]
    current = metadata["current-snapshot-id"]
    body = work.expire_body([each["snapshot-id"] for each in metadata["snapshots"] if each["snapshot-id"] != current])
    loaded = time.monotonic()
    catalog.commit(NAMESPACE, name, body)
    return time.monotonic() - loaded + registered - started
