"""The load generator: a process that executes jobs from its standard input and writes results to its standard output.

It keeps its connections between jobs, so that a block measures only requests. Closed loops measure throughput. With `rate`, a job is an
open loop, whose latencies count from the time a request was due.
"""

import asyncio
import random
import resource
import sys
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import uvloop

from benchmarks.arrivals import Arrivals, Ticker, clock
from benchmarks.blocks import percentile
from benchmarks.connection import Connection, Received, get, post
from benchmarks.job_process import JobProcess
from benchmarks.writers import WRITERS, Writing

Json = dict[str, Any]

# Paths are drawn before the requests are due, because drawing one costs as much as a tenth of a request.
_PATHS_DRAWN = 20_000
QUANTILES = (0.5, 0.9, 0.99)


class LoadGenerator:
    """Executes jobs; `reads` and `writes` describe them."""

    def __init__(self) -> None:
        self._connections: dict[tuple[str, int], list[Connection]] = {}

    async def do(self, job: Json) -> Json:
        before = resource.getrusage(resource.RUSAGE_SELF)
        match job["kind"]:
            case "reads":
                result = await self.reads(job)
            case "published":
                # Imported here, because other claims do not need a broker's client.
                from benchmarks.published import commits_and_events

                result = await commits_and_events(job, self.writes)
            case _:
                result = await self.writes(job)
        after = resource.getrusage(resource.RUSAGE_SELF)
        result["client_cpu_seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return result

    async def reads(self, job: Json) -> Json:
        """GETs of `paths`, or of `template` with a random number below `count`, over `connections` for `seconds` (at `rate`, if given).

        `each` -- sends every number once instead, in order, until all are sent.
        `search` -- the path to which each text of `template` is posted as a search.
        """
        connections = await self._opened(job["address"], job["connections"])
        requests = _requests(job)
        work = _Reads(connections, requests, each=job.get("each", False))
        if job.get("rate"):
            await work.at_rate(job["rate"], job["seconds"])
        else:
            await work.as_fast_as_answered(job["seconds"])
        return work.result()

    async def writes(self, job: Json) -> Json:
        """`clients` loops of the behaviour `writer` (writers.py) for `seconds`, each on a connection of its own."""
        connections = await self._opened(job["address"], job["clients"])
        host = "{}:{}".format(*job["address"])
        writer: Callable[[Writing], Awaitable[None]] = WRITERS[job["writer"]]
        started = clock()
        writings = [
            Writing(connection, host, job["prefix"], job["headers"], number, started + job["seconds"], job.get("with", {}))
            for number, connection in enumerate(connections)
        ]
        await asyncio.gather(*(writer(writing) for writing in writings))
        return _written(writings, clock() - started)

    async def _opened(self, address: list[Any], count: int) -> list[Connection]:
        host, port = address
        kept = [connection for connection in self._connections.get((host, port), []) if connection.is_open]
        while len(kept) < count:
            kept.append(await Connection.open(host, port))
        self._connections[host, port] = kept
        return kept[:count]


def _requests(job: Json) -> list[bytes]:
    host = "{}:{}".format(*job["address"])
    headers = job.get("headers", {})
    if "paths" in job:
        return [get(path, host, headers) for path in job["paths"]]
    count = job["count"]
    if job.get("each"):
        numbers = range(count)
        return [get(job["template"].format(n=n), host, headers) for n in numbers]
    drawn = random.Random(job.get("seed", 0))  # Not for secrets: runs must be repeatable.
    texts = (job["template"].format(n=drawn.randrange(count)) for _ in range(min(_PATHS_DRAWN, count * 4)))
    if "search" in job:
        return [post(job["search"], host, headers, orjson.dumps({"search": text})) for text in texts]
    return [get(path, host, headers) for path in texts]


class _Reads:
    """One run of reads on open connections."""

    def __init__(self, connections: list[Connection], requests: list[bytes], *, each: bool) -> None:
        self._idle = list(connections)
        self._requests = requests
        self._each = each
        self._next = 0
        self._latencies = array("d")
        self._statuses: Counter[int] = Counter()
        self._bytes = 0
        self._lost = 0
        self._until = 0.0
        self._started = 0.0
        self._ended = 0.0
        self._busy = 0
        self._done = asyncio.Event()
        self._backlog: list[float] = []

    async def as_fast_as_answered(self, seconds: float) -> None:
        self._started = clock()
        self._until = self._started + seconds
        self._busy = len(self._idle)
        for connection in self._idle:
            self._send_again(connection)
        await self._done.wait()

    def _send_again(self, connection: Connection) -> None:
        sent = clock()
        if (sent >= self._until and not self._each) or (self._each and self._next >= len(self._requests)):
            self._end_one(sent)
            return

        def answered(received: Received) -> None:
            self._latencies.append(clock() - sent)
            self._statuses[received.status] += 1
            self._bytes += received.body_bytes
            self._send_again(connection)

        connection.start(self._request(), answered, self._lose)

    def _request(self) -> bytes:
        request = self._requests[self._next % len(self._requests)]
        self._next += 1
        return request

    def _end_one(self, at: float) -> None:
        self._ended = at
        self._busy -= 1
        if self._busy == 0:
            self._done.set()

    def _lose(self) -> None:
        self._lost += 1
        self._end_one(clock())

    async def at_rate(self, rate: float, seconds: float) -> None:
        self._started = clock()
        arrivals = Arrivals(rate, seconds, self._started)

        def tick() -> None:
            self._backlog.extend(arrivals.due(clock()))
            self._send_due()
            if arrivals.finished and not self._backlog and self._busy == 0:
                self._done.set()

        ticker = Ticker(1 / rate, tick)
        await self._done.wait()
        ticker.close()
        self._ended = clock()

    def _send_due(self) -> None:
        while self._backlog and self._idle:
            due = self._backlog.pop(0)
            connection = self._idle.pop()
            self._busy += 1

            def answered(received: Received, due: float = due, connection: Connection = connection) -> None:
                self._latencies.append(clock() - due)
                self._statuses[received.status] += 1
                self._bytes += received.body_bytes
                self._busy -= 1
                self._idle.append(connection)
                self._send_due()

            connection.start(self._request(), answered, self._lose)

    def result(self) -> Json:
        seconds = self._ended - self._started
        return {
            "responses": len(self._latencies),
            "rate": len(self._latencies) / seconds,
            "seconds": seconds,
            "statuses": {str(status): count for status, count in self._statuses.items()},
            "bytes": self._bytes,
            "lost": self._lost,
            **_latencies(self._latencies),
        }


def _latencies(values: "array[float] | list[float]") -> Json:
    if not values:
        return {}
    quantiles: Json = {f"p{share * 100:g}_ms": percentile(values, share) * 1000 for share in QUANTILES}
    return {**quantiles, "max_ms": max(values) * 1000}


def _written(writings: list[Writing], seconds: float) -> Json:
    statuses: Counter[int] = Counter()
    for writing in writings:
        statuses.update(writing.statuses)
    latencies = [latency for writing in writings for latency in writing.latencies]
    successes = [writing.successes for writing in writings]
    return {
        "successes": sum(successes),
        "rate": sum(successes) / seconds,
        "seconds": seconds,
        "successes_by_client": successes,
        "statuses": {str(status): count for status, count in statuses.items()},
        "refusals": [text for writing in writings for text in writing.refusals][:5],
        "locations": [location for writing in writings for location in writing.locations],
        "answered": [at for writing in writings for at in writing.answered],
        "request_bytes": sum(writing.request_bytes for writing in writings),
        "response_bytes": sum(writing.response_bytes for writing in writings),
        "commits": sum(writing.commits for writing in writings),
        **_latencies(latencies),
    }


class ClientProcess(JobProcess):
    """A load generator in a separate process."""

    def __init__(self) -> None:
        super().__init__("benchmarks.clients")


async def _main() -> None:
    generator = LoadGenerator()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        try:
            result = await generator.do(orjson.loads(line))
        except Exception as error:
            result = {"error": repr(error)}
        sys.stdout.buffer.write(orjson.dumps(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(_main())
