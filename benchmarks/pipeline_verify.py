"""`icecore pipeline verify` on one and two cores beside `icecore verify`: at two sizes of the log, so that the size can be told from which
Spark is faster.
"""

from collections.abc import Callable
from functools import partial
from statistics import median

from benchmarks.bench import Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, of_ratio
from benchmarks.pipeline import Timed, job, log_of, verify

SIZES, SIZES_LONG = (10_000, 100_000), (100_000, 1_000_000)
_TIMES = 3
CORES = {"one core": 1, "two cores": 2}
_SMALLEST = 1_000
"""Sizes of a test with one round."""


def run(bench: Bench) -> list[Finding]:
    times = min(bench.rounds, _TIMES)
    sizes = SIZES_LONG if bench.long else SIZES
    if bench.rounds == 1:
        sizes = (_SMALLEST, 3 * _SMALLEST)
    seconds: dict[int, dict[str, list[float]]] = {}
    findings = []
    for events in sizes:
        with log_of(bench, events) as service:
            job(service, 2, "ingest")
            work: dict[str, Callable[[], Timed]] = {"icecore verify": partial(verify, service)}
            work |= {name: partial(job, service, cores, "verify") for name, cores in CORES.items()}
            done = alternate(times, work)
        assert all(each.report["ok"] for runs in done.values() for each in runs)
        seconds[events] = {name: [each.seconds for each in runs] for name, runs in done.items()}
        details = {
            "seconds": {name: [round(each.seconds, 1) for each in runs] for name, runs in done.items()},
            "seconds_of_the_report": {name: [round(each.report["seconds"], 1) for each in runs] for name, runs in done.items()},
            "events": done["icecore verify"][0].report["events"],
        }
        findings += [
            of_ratio(
                f"seconds of pipeline verify on {name} beside icecore verify, {events:,} events",
                ratio(seconds[events][name], seconds[events]["icecore verify"]),
                None,
                details,
            )
            for name in CORES
        ]
    small, large = sizes
    middle = {size: {name: median(runs) for name, runs in found.items()} for size, found in seconds.items()}
    costs = {name: (middle[large][name] - middle[small][name]) / (large - small) for name in middle[large]}
    starts = {name: middle[small][name] - costs[name] * small for name in costs}
    for name in CORES:
        gain = costs["icecore verify"] - costs[name]
        even = (starts[name] - starts["icecore verify"]) / gain if gain > 0 else float("inf")
        details = {"microseconds_per_event": {each: round(cost * 1e6, 1) for each, cost in costs.items()}, "start_seconds": starts}
        # A larger log that took less time says that other load on the machine decided.
        void = "the larger log took less time than the smaller one" if min(costs[name], costs["icecore verify"]) <= 0 else None
        what = f"events from which pipeline verify on {name} is faster (inf: none)"
        findings.append(Finding(what, even, "events", details=details, void=void))
    return findings
