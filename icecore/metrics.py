"""Prometheus metrics of one process: those of its catalog, and those that Prometheus defines for every process."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Sample

from .api.request_metrics import REQUEST_METRICS, SECONDS_BOUNDS, RequestMetrics
from .approval.hooks import ApprovalHookMetrics
from .commands.execution.committer import APPEND_COMMANDS_MAX
from .commands.execution.leader_job import LeaderJob
from .commands.execution.stream_queue import STREAM_BATCH_COMMANDS_MAX
from .compose import Application
from .domain.errors import CatalogError
from .log.head import log_head
from .publishers.checkpoints import SinkStatus, sink_statuses
from .version import icecore_version

LOG_SECONDS_MAX = 2.0
"""Limit on reading the log for a scrape. Prometheus waits 10 seconds for all processes."""
_SIZE_BOUNDS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(slots=True)
class ProcessMetrics:
    """What one process reports: `own` differs between processes; `log` is read from the database, so that every process has the same."""

    own: list[Metric]
    log: list[Metric] = field(default_factory=list)

    def to_json(self) -> bytes:
        return orjson.dumps([[_family_to_json(family) for family in families] for families in (self.own, self.log)])


ReadMetrics = Callable[[], Awaitable[ProcessMetrics]]
ServeMetrics = Callable[[ReadMetrics], AbstractAsyncContextManager[object]]
"""Shows the metrics while its block runs: on a port of this process, or to the parent."""


def shown_metrics(serve: ServeMetrics | None, read: ReadMetrics) -> AbstractAsyncContextManager[object]:
    """Shows the metrics while the block runs; nothing where `serve` is None."""
    return nullcontext() if serve is None else serve(read)


def metrics_from_json(line: bytes) -> ProcessMetrics:
    """What `ProcessMetrics.to_json` wrote."""
    own, log = ([_family_from_json(family) for family in families] for families in orjson.loads(line))
    return ProcessMetrics(own, log)


def _family_to_json(family: Metric) -> list[Any]:
    return [family.name, family.documentation, family.type, [[sample.name, sample.labels, sample.value] for sample in family.samples]]


def _family_from_json(values: list[Any]) -> Metric:
    name, documentation, kind, samples = values
    family = Metric(name, documentation, kind)
    family.samples = [Sample(*sample) for sample in samples]
    return family


class CatalogMetrics:
    """Reads the metrics that the parts of a catalog keep. Nothing on a request's path uses Prometheus's library.

    serving -- whether the process serves requests; otherwise it is a worker, with the metrics of its jobs.
    """

    def __init__(self, catalog: Application, *, serving: bool) -> None:
        self._catalog = catalog
        self._serving = serving

    async def read(self) -> ProcessMetrics:
        log = await self._log()
        up = _gauge("icecore_log_up", "1 if Postgres could be read for this scrape", float(bool(log)))
        parts = (
            self._serving_metrics() if self._serving else self._worker_metrics(),
            self._writes(),
            self._connections(),
            [up],
            process_families(),
        )
        return ProcessMetrics([family for part in parts for family in part], log)

    async def _log(self) -> list[Metric]:
        """Position and sinks; nothing if the log cannot be read in time."""
        try:
            async with asyncio.timeout(LOG_SECONDS_MAX), self._catalog.backends.connection() as connection:
                position, sinks = await log_head(connection), await sink_statuses(connection)
        except (CatalogError, psycopg.Error, TimeoutError):
            return []
        return [_gauge("icecore_log_position", "Position of the last event in the log", position), *_sinks(sinks)]

    def _serving_metrics(self) -> Iterator[Metric]:
        requests = self._catalog.app[REQUEST_METRICS]
        yield from _requests(requests)
        yield _counter(
            "icecore_client_connections_over_limit",
            "Connections of clients that were closed because there were too many",
            requests.connections.closed_over_limit,
        )
        yield _counter(
            "icecore_client_connections_stalled",
            "Connections of clients that were closed because they made too little progress",
            requests.connections.stalled,
        )
        yield from self._cache()
        yield from self._events()

    def _worker_metrics(self) -> Iterator[Metric]:
        catalog = self._catalog
        return _jobs((catalog.purge, catalog.old_files, catalog.parts, catalog.expiry, catalog.soft_deletion))

    def _writes(self) -> Iterator[Metric]:
        queues, committer = self._catalog.commands.queues, self._catalog.commands.committer
        yield _gauge("icecore_stream_queue_commands_waiting", "Commands waiting for other commands on the same object", queues.queued)
        yield _sizes(
            "icecore_stream_batch_commands",
            "Commands in one batch of a stream, decided and appended together",
            queues.metrics.batch_lengths,
        )
        yield _counter(
            "icecore_stream_batch_conflicts",
            "Batches decided again after another process's commit or a rebuild",
            queues.metrics.conflicts,
        )
        yield _counter("icecore_stream_queue_commands_refused", "Commands that were refused", queues.metrics.refused)
        yield _gauge("icecore_committer_commands_waiting", "Commands waiting for a call of append", committer.queued)
        yield _sizes("icecore_append_commands", "Commands in one call of append", committer.metrics.append_sizes)
        yield _counter(
            "icecore_append_seconds", "Duration of calls of append in seconds, measured by the process", committer.metrics.append_seconds
        )
        yield _counter(
            "icecore_append_locked_seconds",
            "Time in seconds for which calls of append held the append lock, with the commit of their transactions",
            committer.metrics.append_seconds - committer.metrics.waited_seconds,
        )
        if (hooks := self._catalog.commands.decision_writer.approval_hooks) is not None:
            yield from _approval_hooks(hooks.metrics)
        yield _counter(
            "icecore_append_responses_lost",
            "Calls of append whose connection was lost before the response",
            committer.metrics.responses_lost,
        )

    def _cache(self) -> Iterator[Metric]:
        cache = self._catalog.queries.cache.metrics
        yield _counter("icecore_read_cache_hits", "Responses served from the cache", cache.hits)
        yield _counter("icecore_read_cache_misses", "Responses read from Postgres because the cache had none", cache.misses)
        yield _counter("icecore_read_cache_evictions", "Responses evicted from the cache", cache.evicted)
        yield _gauge("icecore_read_cache_bytes", "Size of the cached responses in bytes", cache.bytes_held)

    def _connections(self) -> Iterator[Metric]:
        connections = self._catalog.backends.connections
        yield _counter("icecore_connection_waits", "Requests that waited for a connection to Postgres", connections.metrics.waits)
        yield _counter(
            "icecore_connection_wait_seconds",
            "Time in seconds that requests waited for a connection to Postgres",
            connections.metrics.wait_seconds,
        )
        yield _gauge("icecore_connections_in_use", "Connections to Postgres in use for reads", connections.in_use)

    def _events(self) -> Iterator[Metric]:
        metrics = self._catalog.events.metrics
        yield _gauge("icecore_event_subscribers", "Clients waiting for events", metrics.subscribers)
        yield _counter("icecore_event_subscribers_refused", "Clients refused because too many were waiting", metrics.subscribers_refused)
        yield _counter("icecore_events_served", "Events sent to clients over HTTP", metrics.events_published)


def _jobs(jobs: Sequence[LeaderJob]) -> Iterator[Metric]:
    runs = CounterMetricFamily("icecore_job_runs", "Runs of background jobs", labels=["job", "outcome"])
    items = CounterMetricFamily("icecore_job_items", "Items that background jobs completed", labels=["job"])
    for job in jobs:
        runs.add_metric([job.NAME, "success"], job.metrics.succeeded)
        runs.add_metric([job.NAME, "failure"], job.metrics.failed)
        items.add_metric([job.NAME], job.metrics.items)
    yield runs
    yield items


def _approval_hooks(metrics: ApprovalHookMetrics) -> Iterator[Metric]:
    verdicts = CounterMetricFamily(
        "icecore_approval_verdicts", "Verdicts of approval hooks; `failure` if a hook returned none", labels=["hook", "verdict"]
    )
    for (hook, verdict), count in metrics.verdicts.items():
        verdicts.add_metric([hook, verdict], count)
    yield verdicts
    seconds = CounterMetricFamily("icecore_approval_seconds", "Duration of approval hooks in seconds", labels=["hook"])
    for hook, taken in metrics.seconds.items():
        seconds.add_metric([hook], taken)
    yield seconds


def _sinks(sinks: list[SinkStatus]) -> Iterator[Metric]:
    events = GaugeMetricFamily("icecore_sink_lag_events", "Number of events that the sink is behind the log", labels=["sink"])
    seconds = GaugeMetricFamily(
        "icecore_sink_lag_seconds", "Age in seconds of the oldest event that was not sent to the sink", labels=["sink"]
    )
    led = GaugeMetricFamily("icecore_sink_has_leader", "1 if a process publishes to the sink", labels=["sink"])
    failing = GaugeMetricFamily("icecore_sink_failing", "1 if the last attempt to publish failed", labels=["sink"])
    now = datetime.now(UTC)
    for sink in sinks:
        waiting = 0.0 if sink.waiting_since is None else max((now - sink.waiting_since).total_seconds(), 0.0)
        events.add_metric([sink.name], sink.head - sink.position)
        seconds.add_metric([sink.name], waiting)
        led.add_metric([sink.name], float(sink.led))
        failing.add_metric([sink.name], float(sink.last_error is not None))
    yield from (events, seconds, led, failing)


def _requests(metrics: RequestMetrics) -> Iterator[Metric]:
    responses = CounterMetricFamily("icecore_requests", "Responses by operation and HTTP status", labels=["operation", "status"])
    for (operation, status), count in metrics.responses.items():
        responses.add_metric([operation, str(status)], count)
    yield responses
    durations = HistogramMetricFamily(
        "icecore_request_seconds", "Time in seconds from the arrival of a request to its response", labels=["operation"]
    )
    for operation, taken in metrics.durations.items():
        durations.add_metric([operation], _cumulative(SECONDS_BOUNDS, taken.counts), taken.seconds)
    yield durations
    errors = CounterMetricFamily("icecore_request_errors", "Error responses by Iceberg error type", labels=["type"])
    for kind, count in metrics.errors.items():
        errors.add_metric([kind], count)
    yield errors


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


def build_family() -> Metric:
    """The version of the server."""
    family = GaugeMetricFamily("icecore_build_info", "Always 1; the label contains the version", labels=["version"])
    family.add_metric([icecore_version()], 1.0)
    return family


async def read_process() -> ProcessMetrics:
    """The metrics of a process without a catalog."""
    return ProcessMetrics([*process_families()])


def process_families() -> Iterator[Metric]:
    """Memory, processor time, start and open files of this process, under Prometheus's names."""
    yield from ProcessCollector(registry=None).collect()
