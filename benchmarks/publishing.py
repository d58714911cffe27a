"""Publishing to NATS JetStream and Kafka: throughput beside the client library's own, delay at half load, and cost to commits."""

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from benchmarks.bench import NAMESPACE, Bench, UnfitRunError
from benchmarks.blocks import alternate, ratio
from benchmarks.brokers import PLACES, LibraryProcess, Place, sink_settings
from benchmarks.commit_distinct import append_block
from benchmarks.findings import Finding, Json, at_least, at_most, of_ratio
from benchmarks.publishing_cost import cost
from benchmarks.rest import RestCatalog
from benchmarks.servers import ROOT, environment_of
from tests.servers.kafka import kafka_broker
from tests.servers.nats import nats_server
from tests.servers.processes import running

THROUGHPUT_GOAL = at_least(0.5)
DELAY_GOAL = at_most(100, "ms")
EVENTS = 10_000
EVENTS_LONG = 20_000
# A slow machine publishes a shorter log.
_APPEND_SECONDS_MAX = 30.0
_WARM_EVENTS = 1_000
"""Events published before the measurement starts: opening the sink and reading the first batch are not measured."""
_RATE_SHARE = 0.5
_CLIENTS = 16
_DELAY_SECONDS = 10.0
_WARM_SECONDS = 2.0
_PUBLISHED_SECONDS_MAX = 120.0
_LOOKED_AT_SECONDS = 0.02
_BLOCKS_SHARE = 4
"""A block publishes the whole log and takes seconds, so there are fewer blocks than for other claims."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker; `kind` is the type of its sinks."""

    kind: str
    url: str

    def place(self, name: str) -> Place:
        return PLACES[self.kind](self.url, name)

    def job(self, name: str) -> Json:
        """A job for a process that uses the same topic."""
        return {"type": self.kind, "url": self.url, "place": name}


@contextlib.contextmanager
def brokers(bench: Bench) -> Iterator[list[Broker]]:
    with (
        nats_server(bench.cluster.directory / "nats") as nats,
        kafka_broker(bench.cluster.directory / "kafka") as kafka,
    ):
        yield [Broker("nats", nats.url), Broker("kafka", kafka.url)]


def run(bench: Bench) -> list[Finding]:
    findings: list[Finding] = []
    with brokers(bench) as both:
        rate = _appended(bench)
        for broker in both:
            findings.append(_throughput(bench, broker))
        for broker in both:
            findings.append(_delay(bench, broker, rate * _RATE_SHARE))
        findings += cost(bench, {broker.kind: broker.place(_new_name()).sink() for broker in both})
    return findings


def _new_name() -> str:
    return f"b{secrets.token_hex(4)}"


def _appended(bench: Bench) -> float:
    """Fills the log of `published` with appends. Returns the highest rate of commits of a block."""
    appended, until = 0, time.monotonic() + _APPEND_SECONDS_MAX * (10 if bench.long else 1)
    rates: list[float] = []
    with bench.catalog("published") as catalog:
        while appended < (EVENTS_LONG if bench.long else EVENTS) and time.monotonic() < until:
            block = append_block(bench, catalog)
            appended += block["successes"]
            rates.append(block["rate"])
    return max(rates)


# Throughput


@dataclass(frozen=True, slots=True)
class _Filled:
    """A block: messages per second, and processor time per message of the publishing process."""

    rate: float
    cpu_us: float


def _throughput(bench: Bench, broker: Broker) -> Finding:
    dsn = bench.cluster.database("published")
    count = _head(dsn)
    with contextlib.closing(LibraryProcess()) as library:
        first = _new_name()
        _ours(bench, broker, dsn, first, count)
        library.start({**broker.job(first), "do": "read", "count": count})
        read = library.result()

        def reference() -> _Filled:
            name = _new_name()
            asyncio.run(broker.place(name).make())
            library.start({**broker.job(name), "do": "publish"})
            filled = asyncio.run(_filling(broker.place(name), count, library.process_id))
            library.result()
            return filled

        blocks = alternate(
            max(3, bench.rounds // _BLOCKS_SHARE),
            {"ours": lambda: _ours(bench, broker, dsn, _new_name(), count), "library": reference},
        )
    details: Json = {"events": count, "body_bytes": read["body_bytes"] // count}
    for variant, filled in blocks.items():
        details[variant] = {"rate": round(median(each.rate for each in filled)), "cpu_us": round(median(each.cpu_us for each in filled))}
    what = f"{broker.kind}: events published, beside the library's own pipelined maximum"
    found = ratio([each.rate for each in blocks["ours"]], [each.rate for each in blocks["library"]])
    return of_ratio(what, found, THROUGHPUT_GOAL, details)


def _ours(bench: Bench, broker: Broker, dsn: str, name: str, count: int) -> _Filled:
    """`icecore worker`, which publishes a log from its beginning to a new topic."""
    place = broker.place(name)
    asyncio.run(place.make())
    environment = environment_of(dsn, sink_settings(name, place.sink()))
    log = bench.cluster.directory / f"work-{name}.log"
    command = [sys.executable, "-m", "icecore", "worker"]
    with running(command, log=log, ready=lambda: True, seconds_max=1.0, environment=environment, directory=ROOT) as process:
        return asyncio.run(_filling(place, count, process.pid))


async def _filling(place: Place, count: int, process_id: int) -> _Filled:
    """Measures from the time when _WARM_EVENTS are stored."""
    until = time.monotonic() + _PUBLISHED_SECONDS_MAX
    warm: tuple[int, float, float] | None = None
    async with place.counting() as counted:
        while time.monotonic() < until:
            there, now, cpu = await counted(), time.monotonic(), _cpu_seconds(process_id)
            if warm is None and there >= _WARM_EVENTS:
                warm = there, now, cpu
            if there >= count:
                if warm is None or warm[0] >= count:
                    raise UnfitRunError(f"a log of {count} events is published before it can be timed")
                events = there - warm[0]
                return _Filled(events / (now - warm[1]), (cpu - warm[2]) / events * 1_000_000)
            await asyncio.sleep(_LOOKED_AT_SECONDS)
    raise UnfitRunError(f"{count} events were not published within {_PUBLISHED_SECONDS_MAX} s")


def _cpu_seconds(process_id: int) -> float:
    # utime and stime are fields 14 and 15. The name in brackets may contain anything.
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Delay


def _delay(bench: Bench, broker: Broker, rate: float) -> Finding:
    name = _new_name()
    settings = sink_settings("published", {**broker.place(name).sink(), "start": "now"})
    database = f"delayed_{broker.kind}"
    dsn = bench.local_database(database)
    with bench.served(database, settings=settings) as service, contextlib.closing(service.catalog()) as catalog:
        tables = _tables(catalog)
        _until_published(dsn)
        given: Json = {"tables": tables, "rate": rate / _CLIENTS}
        bench.write(catalog, "post_at_rate", clients=_CLIENTS, seconds=_WARM_SECONDS, **given)
        _until_published(dsn)
        job = bench.write_job(catalog, "post_at_rate", clients=_CLIENTS, seconds=_DELAY_SECONDS, **given)
        result = bench.client.do({**job, "kind": "published", "broker": broker.job(name)})
    if [*result["statuses"]] != ["200"] or result["published"]["missing"]:
        raise UnfitRunError(f"commits had the responses {result['statuses']}, {result['published']['missing']} events did not come")
    details = {
        "published": {key: round(value, 1) for key, value in result["published"].items()},
        "commits_per_second": round(result["rate"]),
        "clients": _CLIENTS,
        "commit_p99_ms": round(result["p99_ms"], 1),
    }
    what = f"{broker.kind}: p99 from a commit's response to its event at a consumer, at {rate:,.0f} commits/s"
    return Finding(what, result["published"]["p99_ms"], "ms", DELAY_GOAL, details=details)


def _tables(catalog: RestCatalog) -> list[str]:
    catalog.create_namespace(NAMESPACE)
    names = [f"published_{number}" for number in range(_CLIENTS)]
    for name in names:
        catalog.create_table(NAMESPACE, name)
    return names


def _until_published(dsn: str) -> None:
    """Waits until the sink `published` is at the end of the log."""
    until = time.monotonic() + _PUBLISHED_SECONDS_MAX
    with psycopg.connect(dsn, autocommit=True) as connection:
        while time.monotonic() < until:
            row = connection.execute("select position from icecore.sinks where name = 'published' and leader is not null").fetchone()
            if row is not None and row[0] == _head(dsn):
                return
            time.sleep(_LOOKED_AT_SECONDS)
    raise UnfitRunError("the sink does not come to the end of the log")


def _head(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("select coalesce(max(notification_id), 0) from icecore.events").fetchone()
    assert row is not None
    return int(row[0])
