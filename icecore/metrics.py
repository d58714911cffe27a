"""Prometheus metrics of one serving process, on a separate port."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .api.origins import ORIGIN_RULES
from .api.request_metrics import REQUEST_FIGURES, SECONDS_BOUNDS, RequestMetrics
from .api.server import build_edge_runner
from .approval.hooks import ApprovalMetrics
from .commands.execution.committer import APPEND_COMMANDS_MAX
from .commands.execution.stream_queue import STREAM_BATCH_COMMANDS_MAX
from .compose import Application
from .domain.errors import CatalogError, MethodNotAllowed, NotFound
from .log.head import log_head
from .publishers.checkpoints import SinkStatus, sink_statuses
from .version import icecore_version

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.metrics")
_ADDRESS = "/metrics"
_METHODS = ["GET", "HEAD"]
_SIZE_BOUNDS = (1, 2, 4, 8, 16, 32, 64)


class CatalogCollector(Collector):
    """Reads the metrics the parts keep; nothing on a request's path knows of Prometheus.

    position -- of the last event, and sinks -- every sink that was ever led: read before a scrape; None where the log could not be read.
    """

    def __init__(self, catalog: Application) -> None:
        self._catalog = catalog
        self.position: int | None = None
        self.sinks: list[SinkStatus] = []

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("icecore_build_info", "1; the version is in its label", labels=["version"])
        build.add_metric([icecore_version()], 1.0)
        yield build
        yield from _requests(self._catalog.app[REQUEST_FIGURES])
        yield from self._writes()
        yield from self._reads()
        yield from self._events()
        up = GaugeMetricFamily("icecore_log_up", "1 if the log could be read for this scrape")
        up.add_metric([], float(self.position is not None))
        yield up
        if self.position is not None:
            yield _gauge("icecore_log_position", "Position of the last event of the log", self.position)
            yield from _sinks(self.sinks)

    def _writes(self) -> Iterator[Metric]:
        queues, committer = self._catalog.commands.queues, self._catalog.commands.committer
        yield _gauge("icecore_stream_queue_commands_waiting", "Commands waiting for others on the same object", queues.queued)
        yield _sizes("icecore_stream_batch_commands", "Commands decided together and appended together", queues.metrics.batch_lengths)
        yield _counter("icecore_stream_batches_lost", "Batches decided again because another process committed first", queues.metrics.lost)
        yield _counter("icecore_commands_refused_unappended", "Commands refused without a statement", queues.metrics.refused)
        yield _gauge("icecore_committer_commands_waiting", "Commands waiting for a call of append", committer.queued)
        yield _sizes("icecore_append_commands", "Commands in one call of append", committer.metrics.append_sizes)
        yield _counter("icecore_append_seconds", "Seconds in calls of append, measured by the process", committer.metrics.append_seconds)
        yield _counter("icecore_append_locked_seconds", "Seconds under the append lock", committer.metrics.locked_seconds)
        if (approval := self._catalog.commands.appender.approval) is not None:
            yield from _approval(approval.metrics)
        yield _counter("icecore_appends_in_doubt", "Calls of append whose answer was lost", committer.metrics.in_doubt)

    def _reads(self) -> Iterator[Metric]:
        cache, connections = self._catalog.queries.cache.metrics, self._catalog.backends.connections
        yield _counter("icecore_read_cache_hits", "Answers from memory", cache.hits)
        yield _counter("icecore_read_cache_misses", "Answers read from Postgres", cache.misses)
        yield _counter("icecore_read_cache_evictions", "Answers removed from memory to make room", cache.evicted)
        yield _gauge("icecore_read_cache_bytes", "Bytes of answers held in memory", cache.bytes_held)
        yield _counter("icecore_connection_waits", "Requests that waited for a connection to Postgres", connections.metrics.waits)
        yield _counter("icecore_connection_wait_seconds", "Seconds requests waited for a connection", connections.metrics.wait_seconds)
        yield _gauge("icecore_connections_in_use", "Connections to Postgres in use for reads", connections.in_use)

    def _events(self) -> Iterator[Metric]:
        metrics = self._catalog.events.metrics
        yield _gauge("icecore_event_subscribers", "Clients waiting for events", metrics.subscribers)
        yield _counter("icecore_event_subscribers_refused", "Clients refused because too many were waiting", metrics.subscribers_refused)
        yield _counter("icecore_events_served", "Events sent to clients over HTTP", metrics.events_published)


def _approval(metrics: ApprovalMetrics) -> Iterator[Metric]:
    verdicts = CounterMetricFamily(
        "icecore_approval_verdicts", "Verdicts of approval hooks; failure: no verdict", labels=["hook", "verdict"]
    )
    for (hook, verdict), count in metrics.verdicts.items():
        verdicts.add_metric([hook, verdict], count)
    yield verdicts
    seconds = CounterMetricFamily("icecore_approval_seconds", "Seconds approval hooks took", labels=["hook"])
    for hook, taken in metrics.seconds.items():
        seconds.add_metric([hook], taken)
    yield seconds


def _sinks(sinks: list[SinkStatus]) -> Iterator[Metric]:
    events = GaugeMetricFamily("icecore_sink_lag_events", "Events of the log that the sink is behind", labels=["sink"])
    seconds = GaugeMetricFamily("icecore_sink_lag_seconds", "Age of the oldest event that the sink was not sent", labels=["sink"])
    led = GaugeMetricFamily("icecore_sink_led", "1 where a process publishes to the sink", labels=["sink"])
    failing = GaugeMetricFamily("icecore_sink_failing", "1 where the last attempt to publish failed", labels=["sink"])
    now = datetime.now(UTC)
    for sink in sinks:
        waiting = 0.0 if sink.waiting_since is None else max((now - sink.waiting_since).total_seconds(), 0.0)
        events.add_metric([sink.name], sink.head - sink.position)
        seconds.add_metric([sink.name], waiting)
        led.add_metric([sink.name], float(sink.led))
        failing.add_metric([sink.name], float(sink.last_error is not None))
    yield from (events, seconds, led, failing)


def _requests(metrics: RequestMetrics) -> Iterator[Metric]:
    answers = CounterMetricFamily("icecore_requests", "Answers by operation and HTTP status", labels=["operation", "status"])
    for (operation, status), count in metrics.answers.items():
        answers.add_metric([operation, str(status)], count)
    yield answers
    durations = HistogramMetricFamily("icecore_request_seconds", "Seconds from a request's arrival to its answer", labels=["operation"])
    for operation, taken in metrics.durations.items():
        durations.add_metric([operation], _cumulative(SECONDS_BOUNDS, taken.counts), taken.seconds)
    yield durations
    refusals = CounterMetricFamily("icecore_refusals", "Error answers by Iceberg type", labels=["type"])
    for kind, count in metrics.refusals.items():
        refusals.add_metric([kind], count)
    yield refusals


def _cumulative(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _sizes(name: str, text: str, sizes: Mapping[int, int]) -> Metric:
    assert max(APPEND_COMMANDS_MAX, STREAM_BATCH_COMMANDS_MAX) <= _SIZE_BOUNDS[-1]
    counts = Counter[int]()
    for size, count in sizes.items():
        counts[next(number for number, bound in enumerate(_SIZE_BOUNDS) if size <= bound)] += count
    family = HistogramMetricFamily(name, text)
    buckets = _cumulative(_SIZE_BOUNDS, [counts[number] for number in range(len(_SIZE_BOUNDS) + 1)])
    family.add_metric([], buckets, float(sum(size * count for size, count in sizes.items())))
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


@asynccontextmanager
async def served_metrics(catalog: Application, host: str, port: int) -> AsyncIterator[str]:
    """`GET /metrics` on `host:port` while the block runs; its address. Raises OSError where the port is taken."""
    collector, registry = CatalogCollector(catalog), CollectorRegistry()
    registry.register(collector)
    # Its memory, processor time and open files, by the names that Prometheus has for them.
    ProcessCollector(registry=registry)

    async def serve(request: web.Request) -> web.Response:
        if request.rel_url.raw_path != _ADDRESS:
            raise NotFound(f"No such address: the metrics are at {_ADDRESS}")
        if request.method not in _METHODS:
            raise MethodNotAllowed(f"Method not allowed: {request.method}", _METHODS)
        try:
            async with catalog.backends.connection() as connection:
                collector.position, collector.sinks = await log_head(connection), await sink_statuses(connection)
        except CatalogError:
            collector.position = None
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app[ORIGIN_RULES], app[REQUEST_FIGURES] = catalog.app[ORIGIN_RULES], RequestMetrics()
    runner = build_edge_runner(app, catalog.limits, serve)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        url = f"http://{host}:{runner.addresses[0][1]}{_ADDRESS}"
        _log.info("metrics", url=url)
        yield url
    finally:
        await runner.cleanup()
