"""Counters of requests and connections, and durations of requests, for the metrics."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

# Upper bounds in seconds; an additional last bucket counts longer requests.
SECONDS_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(slots=True)
class Durations:
    """A histogram of durations: one count per bound, and one for longer requests."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1


@dataclass(slots=True)
class ConnectionMetrics:
    """Connections closed because there were too many, or because of too little progress, since the process started."""

    closed_over_limit: int = 0
    stalled: int = 0


@dataclass(slots=True)
class RequestMetrics:
    """Responses by operation and status, durations by operation, and errors by Iceberg type, since the process started."""

    connections: ConnectionMetrics = field(default_factory=ConnectionMetrics)
    responses: Counter[tuple[str, int]] = field(default_factory=Counter)
    durations: dict[str, Durations] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, operation: str | None, status: int, seconds: float) -> None:
        """`operation` is None if no operation has the path."""
        name = operation or "none"
        self.responses[name, status] += 1
        durations = self.durations.get(name)
        if durations is None:
            durations = self.durations[name] = Durations()
        durations.add(seconds)


REQUEST_METRICS: web.AppKey[RequestMetrics] = web.AppKey("request_metrics", RequestMetrics)
