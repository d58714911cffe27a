"""Memory of a worker after loads of 10,000 tables with a cache of 64 MB. The long form also checks that it does not grow, and measures it
after four minutes of appends to many tables with default caches.
"""

import contextlib
import time

from benchmarks import machine
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, at_most
from benchmarks.servers import our_server

MEBIBYTE = 1024 * 1024
GOAL_MB = 200
CACHE_BYTES = 64 * MEBIBYTE
_FLAT_SECONDS = 600
_APPENDS_SECONDS = 240
# The last third divided by the middle one.
_GROWTH_MAX = 1.05


def run(bench: Bench) -> list[Finding]:
    with bench.many_tables():
        pass  # Creates the tables, so that the measured process only serves loads.
    settings = {"ICECORE_READ_CACHE_BYTES_MAX": str(CACHE_BYTES)}
    with our_server(bench.cluster, bench.cluster.database("many"), settings=settings) as service:
        catalog = service.catalog()
        template = catalog.table_path(NAMESPACE, "t{n}")
        before, _ = machine.memory_bytes(service.process_id)

        def load_all(gzip: bool) -> None:
            headers = {"Accept-Encoding": "gzip"} if gzip else {}
            bench.read(catalog.address, template=template, count=10_000, each=True, headers=headers)

        for gzip in (False, True, False):
            load_all(gzip)
        now, most = machine.memory_bytes(service.process_id)
        details = {"started_mb": round(before / MEBIBYTE), "most_mb": round(most / MEBIBYTE)}
        findings = [Finding("resident after loads of 10,000 tables", now / MEBIBYTE, "MB", at_most(GOAL_MB, "MB"), details=details)]
        if bench.long:
            samples: list[float] = []
            until = time.monotonic() + _FLAT_SECONDS
            while time.monotonic() < until:
                load_all(gzip=len(samples) % 2 == 1)
                samples.append(machine.memory_bytes(service.process_id)[0] / MEBIBYTE)
            third = len(samples) // 3
            growth = max(samples[-third:]) / max(samples[third : 2 * third])
            course = {"mb": [round(sample) for sample in samples[:: max(1, len(samples) // 60)]]}
            findings.append(Finding("resident, last third of 10 minutes by the middle", growth, "×", at_most(_GROWTH_MAX), details=course))
        catalog.close()
    if bench.long:
        findings.append(after_appends(bench, _APPENDS_SECONDS))
    return findings


def after_appends(bench: Bench, seconds: float) -> Finding:
    """A worker with default settings, during appends of 32 clients to their own tables, which are new in every block."""
    samples, commits = list[float](), 0
    with our_server(bench.cluster, bench.local_database("appended")) as service, contextlib.closing(service.catalog()) as catalog:
        catalog.create_namespace(NAMESPACE)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            commits += append_block(bench, catalog)["commits"]
            samples.append(machine.memory_bytes(service.process_id)[0] / MEBIBYTE)
    details = {"commits": commits, "mb": [round(sample) for sample in samples[:: max(1, len(samples) // 60)]]}
    return Finding("resident while tables are appended to, at most", max(samples), "MB", at_most(GOAL_MB, "MB"), details=details)
