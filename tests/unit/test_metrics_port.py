"""What one scrape makes of the metrics of several processes."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from icecore import metrics_channel, metrics_port
from icecore.api.limits import DEFAULT_LIMITS
from icecore.api.origins import OriginRules
from icecore.child_process import ChildProcess
from icecore.listening import listen
from icecore.metrics import ProcessMetrics, metrics_from_json, process_families
from icecore.metrics_channel import MetricsChannel, responding_to_parent
from icecore.metrics_port import ScrapedChild, ThisProcess, labelled, read_all, served_metrics, summed


def counter(**values: float) -> Metric:
    family = CounterMetricFamily("icecore_requests", "text", labels=["operation"])
    for operation, value in values.items():
        family.add_metric([operation], value)
    return family


def gauge(value: float) -> Metric:
    return GaugeMetricFamily("icecore_queue", "text", value=value)


def values(families: list[Metric]) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples}


def requests(families: list[Metric]) -> dict[str, float]:
    return {labels[0]: value for (name, labels), value in values(families).items() if name == "icecore_requests_total"}


def up(families: list[Metric]) -> dict[str, float]:
    return {labels[0]: value for (name, labels), value in values(families).items() if name == "icecore_process_up"}


@asynccontextmanager
async def running(child: ChildProcess, read: Callable[[], Awaitable[ProcessMetrics]]) -> AsyncIterator[None]:
    """A run of the child, in this process."""
    ours, theirs = socket.socketpair()
    channel = child.metrics = await MetricsChannel.open(ours)
    async with responding_to_parent(theirs.detach(), read):
        yield
    channel.close()
    child.metrics = None


def child_and_process(name: str = "serving-1") -> tuple[ChildProcess, ScrapedChild]:
    child = ChildProcess(name, "none", {}, grace_seconds=1, reports_metrics=True)
    return child, ScrapedChild(child)


def reader(*families: Metric) -> Callable[[], Awaitable[ProcessMetrics]]:
    async def read() -> ProcessMetrics:
        return ProcessMetrics([*families])

    return read


def test_counters_are_added_by_their_labels() -> None:
    """One has labels that another lacks."""
    (family,) = summed([counter(load=1, list=2), counter(load=3, commit=4)])
    assert {"load": 4, "list": 2, "commit": 4} == requests([family])
    assert ("icecore_requests", "text", "counter") == (family.name, family.documentation, family.type)


def test_histograms_are_added_by_bucket() -> None:
    """Buckets, sum and count, in the order that Prometheus's format demands."""
    one = HistogramMetricFamily("icecore_size", "text")
    one.add_metric([], [("1", 1.0), ("+Inf", 3.0)], 9.0)
    (family,) = summed([one, one])
    assert [("1", 2.0), ("+Inf", 6.0)] == [(sample.labels["le"], sample.value) for sample in family.samples if "le" in sample.labels]
    assert (6.0, 18.0) == tuple(values([family])[f"icecore_size_{name}", ()] for name in ("count", "sum"))


def test_gauges_are_distinguished_by_process() -> None:
    """In one family: Prometheus refuses two of a name."""
    (family,) = labelled([("one", gauge(1)), ("two", gauge(2))])
    assert {("icecore_queue", ("one",)): 1, ("icecore_queue", ("two",)): 2} == values([family])


def test_metrics_are_the_same_behind_a_socket() -> None:
    """All kinds, and all that Prometheus defines for a process."""
    families = [counter(load=1.5), gauge(0.1), *process_families()]
    back = metrics_from_json(ProcessMetrics(families, [gauge(7)]).to_json())
    assert _text(families) == _text(back.own)
    assert {("icecore_queue", ()): 7} == values(back.log)


def _text(families: list[Metric]) -> bytes:
    registry = CollectorRegistry()
    for family in families:
        registry.register(metrics_port._Read([family]))
    return generate_latest(registry)


async def test_a_replaced_child_s_counters_stay_in_the_sum() -> None:
    """As they were at the last scrape; its gauges are gone."""
    child, scraped = child_and_process()
    this = ThisProcess("supervisor", reader(counter(load=1), gauge(9)))
    for count in (10, 20):
        async with running(child, reader(counter(load=count), gauge(5))):
            found = await read_all([this, scraped])
    assert {"load": 31} == requests(found)
    assert {"supervisor": 1, "serving-1": 1} == up(found)
    dead = await read_all([this, scraped])
    assert {"load": 31} == requests(dead)
    assert {"supervisor": 1, "serving-1": 0} == up(dead)
    assert [("supervisor",)] == [labels for name, labels in values(dead) if name == "icecore_queue"]
    async with running(child, reader(counter(load=100))):
        assert {"load": 131} == requests(await read_all([this, scraped]))


async def test_a_late_response_is_not_taken_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child hangs for one scrape, then responds to that one and the next."""
    monkeypatch.setattr(metrics_port, "PROCESS_SECONDS_MAX", 0.05)
    child, scraped = child_and_process()
    resumed, asked = asyncio.Event(), 0

    async def read() -> ProcessMetrics:
        nonlocal asked
        asked += 1
        await resumed.wait()
        return ProcessMetrics([counter(load=asked)])

    async with running(child, read):
        for _ in range(3):
            assert {"serving-1": 0} == up(await read_all([scraped]))
        assert 1 == asked
        resumed.set()
        monkeypatch.setattr(metrics_port, "PROCESS_SECONDS_MAX", 5.0)
        assert {"load": 2} == requests(await read_all([scraped]))


async def test_scrapes_at_the_same_time_each_have_a_response() -> None:
    """Two Prometheus servers scrape the same port."""
    child, scraped = child_and_process()
    async with running(child, reader(counter(load=1))):
        found = await asyncio.gather(*(read_all([scraped]) for _ in range(10)))
    assert [{"load": 1}] * 10 == [requests(each) for each in found]


async def test_a_response_may_be_long() -> None:
    """The response of a process that serves every operation is longer than the 64 KiB that asyncio reads as one line by default."""
    many = {f"operation{number}": 1.0 for number in range(2_000)}
    child, scraped = child_and_process()
    async with running(child, reader(counter(**many))):
        assert many == requests(await read_all([scraped]))


async def test_a_process_whose_response_is_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scrape has the other processes."""
    monkeypatch.setattr(metrics_channel, "LINE_BYTES_MAX", 1_000)
    child, scraped = child_and_process()
    this = ThisProcess("supervisor", reader(counter(load=1)))
    async with running(child, reader(counter(**{f"operation{number}": 1.0 for number in range(2_000)}))):
        found = await read_all([this, scraped])
    assert {"supervisor": 1, "serving-1": 0} == up(found)
    assert {"load": 1} == requests(found)


async def test_a_process_that_cannot_read_its_metrics_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the channel."""
    monkeypatch.setattr(metrics_port, "PROCESS_SECONDS_MAX", 60.0)
    child, scraped = child_and_process()

    async def fail() -> ProcessMetrics:
        raise RuntimeError("no metrics")

    async with running(child, fail), asyncio.timeout(10):
        for _ in range(2):
            assert {"serving-1": 0} == up(await read_all([scraped]))


async def test_scrapes_at_the_same_time_ask_each_process_once() -> None:
    """Else many scrapes would take the connections for reads, and the last ones would report processes as dead. A later one asks again."""
    asked, resumed = 0, asyncio.Event()

    async def read() -> ProcessMetrics:
        nonlocal asked
        asked += 1
        await resumed.wait()
        return ProcessMetrics([counter(load=asked)])

    async def scrape(session: aiohttp.ClientSession, url: str) -> str:
        async with session.get(url) as response:
            return await response.text()

    with closing(listen("127.0.0.1", 0)) as opened:
        async with (
            served_metrics(opened, [ThisProcess("a", read)], DEFAULT_LIMITS, OriginRules()) as url,
            aiohttp.ClientSession() as session,
        ):
            scrapes = [asyncio.create_task(scrape(session, url)) for _ in range(10)]
            await asyncio.sleep(0.5)
            scrapes.pop().cancel()
            resumed.set()
            assert 1 == len({*await asyncio.gather(*scrapes)})
            assert 1 == asked
            assert 'icecore_requests_total{operation="load"} 2.0' in await scrape(session, url)


async def test_idle_connections_take_few_open_files() -> None:
    """The catalog in the same process needs them. A scrape among them has a response."""
    with closing(listen("127.0.0.1", 0)) as opened:
        address = opened.getsockname()
        async with (
            served_metrics(opened, [ThisProcess("a", reader())], DEFAULT_LIMITS, OriginRules()) as url,
            aiohttp.ClientSession() as session,
        ):
            idle = [await asyncio.open_connection(*address) for _ in range(100)]
            async with session.get(url) as response:
                assert 200 == response.status
            await asyncio.sleep(0.2)
            left = [not stream.at_eof() and stream.exception() is None for stream, _ in idle]
            for _, writer in idle:
                writer.close()
    assert sum(left) < metrics_port.CONNECTIONS_MAX


async def test_a_connection_that_is_refused_at_once_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    """While all others are busy. A trace for each would fill the log."""
    resumed = asyncio.Event()

    async def read() -> ProcessMetrics:
        await resumed.wait()
        return ProcessMetrics([])

    with closing(listen("127.0.0.1", 0)) as opened:
        address, limits = opened.getsockname(), replace(DEFAULT_LIMITS, connections_max=1)
        async with served_metrics(opened, [ThisProcess("a", read)], limits, OriginRules()):
            busy, writer = await asyncio.open_connection(*address)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            await asyncio.sleep(0.2)
            for _ in range(5):
                refused, other = await asyncio.open_connection(*address)
                with suppress(ConnectionError):
                    assert b"" == await refused.read()
                other.close()
            resumed.set()
            assert (await busy.read()).startswith(b"HTTP/1.1 200")
            writer.close()
    gc.collect()
    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]


async def test_what_the_database_says_is_there_once() -> None:
    """Of the first process that could read it."""

    def of(*log: Metric) -> Callable[[], Awaitable[ProcessMetrics]]:
        async def read() -> ProcessMetrics:
            return ProcessMetrics([], [*log])

        return read

    found = await read_all([ThisProcess("a", of()), ThisProcess("b", of(gauge(4))), ThisProcess("c", of(gauge(5)))])
    assert [4] == [value for (name, _), value in values(found).items() if name == "icecore_queue"]
