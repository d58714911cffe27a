"""The metrics port: one scrape has the metrics of all processes of a server.

Counters and histograms are sums over the processes. Gauges, and Prometheus's own metrics of a process, have the label `process`
(docs/decisions/0018-one-metrics-port.md).
"""

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from .api.limits import ApiLimits
from .api.origins import ORIGIN_RULES, OriginRules
from .api.proxies import TRUSTED_PROXIES, TrustedProxies
from .api.request_metrics import REQUEST_METRICS, RequestMetrics
from .api.server import build_edge_runner
from .child_process import ChildProcess
from .domain.errors import MethodNotAllowed, NotFound
from .listening import url_of
from .metrics import ProcessMetrics, ReadMetrics, ServeMetrics, build_family
from .metrics_channel import MetricsChannel
from .settings import Settings

PROCESS_SECONDS_MAX = 4.0
"""Limit on one process's response: more than LOG_SECONDS_MAX, and less than the 10 seconds that Prometheus waits by default."""
CONNECTIONS_MAX = 16
"""Connections to the port; a further one closes the longest idle. The catalog's may take three quarters of the open files."""
_ADDRESS = "/metrics"
_METHODS = ["GET", "HEAD"]
_SUMMED = frozenset({"counter", "histogram"})

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.metrics")


class ScrapedProcess(ABC):
    """A process of the server, under its `name` in the label."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    async def read(self) -> ProcessMetrics | None:
        """None if it does not respond within PROCESS_SECONDS_MAX."""

    @property
    @abstractmethod
    def counters(self) -> list[Metric]:
        """Counters and histograms as of the last response, with those of the processes that this one replaced."""


class ThisProcess(ScrapedProcess):
    """The process that has the port."""

    def __init__(self, name: str, read: ReadMetrics) -> None:
        super().__init__(name)
        self._read = read
        self._counters: list[Metric] = []

    async def read(self) -> ProcessMetrics:
        found = await self._read()
        self._counters = _counters(found)
        return found

    @property
    def counters(self) -> list[Metric]:
        return self._counters


class ScrapedChild(ScrapedProcess):
    """A child. If it dies, its counters stay in the sums: a sum that went back would be a reset of all processes to Prometheus."""

    def __init__(self, child: ChildProcess) -> None:
        super().__init__(child.name)
        self._child = child
        self._asked: MetricsChannel | None = None
        self._last: list[Metric] = []
        self._replaced: list[Metric] = []

    async def read(self) -> ProcessMetrics | None:
        channel = self._child.metrics
        if channel is None:
            return None
        try:
            async with asyncio.timeout(PROCESS_SECONDS_MAX):
                found = await channel.read()
        except (OSError, ValueError):
            return None
        if channel is not self._asked:
            self._asked, self._replaced = channel, summed([*self._replaced, *self._last])
        self._last = _counters(found)
        return found

    @property
    def counters(self) -> list[Metric]:
        return [*self._replaced, *self._last]


def _counters(found: ProcessMetrics) -> list[Metric]:
    return [family for family in found.own if _is_summed(family)]


def _is_summed(family: Metric) -> bool:
    """The processor time of a process is a counter, and of use by process only."""
    return family.type in _SUMMED and not family.name.startswith("process_")


def summed(families: Iterable[Metric]) -> list[Metric]:
    """One family of each name. Samples of the same name and labels are added; the sum is at the position of the first."""
    found: dict[str, tuple[Metric, dict[tuple[str, frozenset[tuple[str, str]]], Sample]]] = {}
    for family in families:
        _, samples = found.setdefault(family.name, (_empty(family), {}))
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            before = samples.get(key)
            samples[key] = sample if before is None else sample._replace(value=before.value + sample.value)
    for family, samples in found.values():
        family.samples = [*samples.values()]
    return [family for family, _ in found.values()]


def labelled(families: Iterable[tuple[str, Metric]]) -> list[Metric]:
    """One family of each name, in which every sample has the label `process`."""
    found: dict[str, Metric] = {}
    for process, family in families:
        samples = [sample._replace(labels={"process": process, **sample.labels}) for sample in family.samples]
        found.setdefault(family.name, _empty(family)).samples += samples
    return [*found.values()]


def _empty(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type)


async def read_all(processes: Sequence[ScrapedProcess]) -> list[Metric]:
    """The metrics of all processes, which are asked at the same time."""
    responses = await asyncio.gather(*(process.read() for process in processes))
    up = GaugeMetricFamily("icecore_process_up", "1 if the process responded to this scrape", labels=["process"])
    for process, found in zip(processes, responses, strict=True):
        up.add_metric([process.name], float(found is not None))
    responded = [(process.name, found) for process, found in zip(processes, responses, strict=True) if found is not None]
    return [
        build_family(),
        up,
        *summed(family for process in processes for family in process.counters),
        *labelled((name, family) for name, found in responded for family in found.own if not _is_summed(family)),
        # The first: values that were read at the same time.
        *next((found.log for _, found in responded if found.log), []),
    ]


class _Read(Collector):
    """Metrics that were read already, in the form of the library."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _text(families: list[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Read(families))
    return generate_latest(registry)


class _Scrapes:
    """The text of a scrape. Scrapes at the same time share one: each would ask all processes, and those at the end would not be answered in
    time.
    """

    def __init__(self, processes: Sequence[ScrapedProcess]) -> None:
        self._processes = processes
        self._running: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._read(), name="scrape")
        # The others who wait for it need it still.
        return await asyncio.shield(self._running)

    def close(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _read(self) -> bytes:
        return _text(await read_all(self._processes))


@contextlib.asynccontextmanager
async def served_metrics(
    listening: socket.socket, processes: Sequence[ScrapedProcess], limits: ApiLimits, rules: OriginRules
) -> AsyncIterator[str]:
    """`GET /metrics` on `listening` while the block runs; its address."""
    scrapes = _Scrapes(processes)

    async def serve(request: web.Request) -> web.Response:
        if request.rel_url.raw_path != _ADDRESS:
            raise NotFound(f"Path does not exist: the metrics are at {_ADDRESS}")
        if request.method not in _METHODS:
            raise MethodNotAllowed(f"Method not allowed: {request.method}", _METHODS)
        return web.Response(body=await scrapes.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app[ORIGIN_RULES], app[TRUSTED_PROXIES], app[REQUEST_METRICS] = rules, TrustedProxies(), RequestMetrics()
    runner = build_edge_runner(app, replace(limits, connections_max=min(limits.connections_max, CONNECTIONS_MAX)), serve)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        url = f"{url_of(listening)}{_ADDRESS}"
        _log.info("metrics", url=url)
        yield url
    finally:
        await runner.cleanup()
        scrapes.close()


def metrics_port(
    settings: Settings, listening: socket.socket | None, name: str, children: Iterable[ChildProcess | None] = ()
) -> ServeMetrics | None:
    """Shows the metrics of this process and its children on `listening`; None without a port.

    name -- of this process.
    """
    if listening is None:
        return None
    scraped = [ScrapedChild(child) for child in children if child is not None]

    def serve(read: ReadMetrics) -> AbstractAsyncContextManager[object]:
        return served_metrics(listening, [ThisProcess(name, read), *scraped], settings.api_limits(), settings.origin_rules())

    return serve
