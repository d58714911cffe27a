"""Landing the log with Spark: on one and two cores, beside reading the same events in one process without Spark."""

import itertools
import time
from collections.abc import Callable
from functools import partial
from uuid import UUID

from benchmarks.bench import Bench
from benchmarks.blocks import alternate, ratio
from benchmarks.findings import Finding, of_ratio
from benchmarks.pipeline import job, log_of
from icecore.pipeline.ingest import RANGE_EVENTS
from icecore.pipeline.log_source import LogSource, divided

EVENTS, EVENTS_LONG = 20_000, 100_000
_EVENTS_SMALL = 1_000
"""Of a test with one round."""
_TIMES = 3


def run(bench: Bench) -> list[Finding]:
    times = min(bench.rounds, _TIMES)
    places = tuple(f"landed{number}" for number in range(2 * times))
    free = itertools.chain(places)
    events = _EVENTS_SMALL if bench.rounds == 1 else EVENTS_LONG if bench.long else EVENTS
    with log_of(bench, events, warehouses=places) as service:

        def landed(cores: int) -> float:
            """Events a second without the start: that of a run which finds nothing to land is subtracted."""
            place = next(free)
            first = job(service, cores, "ingest", "--warehouse", place)
            again = job(service, cores, "ingest", "--warehouse", place)
            starts.append(again.seconds)
            return float(first.report["events"]) / (first.seconds - again.seconds)

        def read() -> float:
            source = LogSource(service.dsn, UUID(int=0))
            started = time.monotonic()
            count = sum(1 for _ in source.read(divided(0, events, RANGE_EVENTS)))
            return count / (time.monotonic() - started)

        starts: list[float] = []
        work: dict[str, Callable[[], float]] = {"one core": partial(landed, 1), "two cores": partial(landed, 2), "read": read}
        rates = alternate(times, work)
    details = {
        "events": events,
        "events_per_second": {name: [round(rate) for rate in found] for name, found in rates.items()},
        "start_seconds": [round(seconds, 1) for seconds in starts],
    }
    return [
        of_ratio(f"events landed a second, {what} beside {other}", ratio(rates[what], rates[other]), None, details)
        for what, other in (("two cores", "one core"), ("one core", "read"))
    ]
