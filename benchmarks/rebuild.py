"""Rebuild of the read models from a log of append commits to distinct tables."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import orjson

from benchmarks.bench import Bench
from benchmarks.blocks import interval
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, at_least

GOAL = at_least(20_000, "events/s")
EVENTS = 20_000
EVENTS_LONG = 200_000
# A slow machine folds a shorter log.
_APPEND_SECONDS_MAX = 20.0
_APPEND_SECONDS_MAX_LONG = 300.0
_TIMES = 3
_ROOT = Path(__file__).resolve().parents[1]
# A separate process, as `icecore rebuild` is.
_REBUILD = """
import orjson, resource, sys
from icecore.projections.rebuild import rebuild_on_every_core
def cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
before = cpu_seconds()
report = rebuild_on_every_core(sys.argv[1])
figures = {"events": report.events, "rows": report.rows, "seconds": report.seconds, "cpu_seconds": cpu_seconds() - before}
print(orjson.dumps(figures).decode())
"""


def run(bench: Bench) -> list[Finding]:
    wanted = EVENTS_LONG if bench.long else EVENTS
    appended, until = 0, time.monotonic() + (_APPEND_SECONDS_MAX_LONG if bench.long else _APPEND_SECONDS_MAX)
    with bench.catalog("rebuilt") as catalog:
        while appended < wanted and time.monotonic() < until:
            appended += append_block(bench, catalog)["successes"]
    dsn = bench.cluster.database("rebuilt")
    reports = []
    for _ in range(_TIMES):
        command = [sys.executable, "-c", _REBUILD, dsn]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
        reports.append(orjson.loads(done.stdout))
    rates = [report["events"] / report["seconds"] for report in reports]
    details = {
        "events": reports[-1]["events"],
        "rows": reports[-1]["rows"],
        "seconds": [round(report["seconds"], 2) for report in reports],
        # Processor time of our processes without Postgres, which other load on the machine affects less.
        "cpu_seconds": [round(report["cpu_seconds"], 2) for report in reports],
    }
    return [Finding("events folded", median(rates), "events/s", GOAL, interval(rates), details)]
