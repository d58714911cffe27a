"""Prometheus metrics of a process that serves and commits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from icecore import metrics
from icecore.api.server import build_runner
from icecore.compose import Application
from icecore.database.advisory_locks import AdvisoryLock
from icecore.database.connection import connect
from icecore.domain.errors import CommitFailed
from icecore.listening import listen
from icecore.log.head import log_head
from icecore.metrics import CatalogMetrics
from icecore.metrics_port import ThisProcess, served_metrics
from icecore.publishers.checkpoints import locked
from icecore.version import icecore_version
from tests.integration.test_stream_queues import Process, one

__all__ = ["one"]

THIS = frozenset({("process", "serving-1")})


@asynccontextmanager
async def metrics_url(catalog: Application) -> AsyncIterator[str]:
    """The address of the metrics of a catalog in this process, while the block runs."""
    process = ThisProcess("serving-1", CatalogMetrics(catalog, serving=True).read)
    with closing(listen("127.0.0.1", 0)) as opened:
        async with served_metrics(opened, [process], catalog.limits, catalog.origin_rules) as url:
            yield url


async def _scrape(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = await response.text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_what_happened_is_counted(one: Process, catalog: Application, tmp_path: Path) -> None:
    """Commits, batches, calls of append, the log's position, requests and refusals."""
    for n in range(3):
        await one.set("t", {"k": str(n)})
    runner = build_runner(catalog.app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    root = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/demo/namespaces"
    async with metrics_url(catalog) as url, aiohttp.ClientSession() as session:
        for table in ("t", "t", "t", "missing"):
            (await session.get(f"{root}/a/tables/{table}")).release()
        (await session.get(f"{root.removesuffix('/v1/demo/namespaces')}/history/v1/events?to=4")).release()
        found = await _scrape(url)
    await runner.cleanup()
    assert 3 == found["icecore_stream_batch_commands_count", frozenset()]
    assert 3 <= found["icecore_append_commands_count", frozenset()]
    assert 0 < found["icecore_append_locked_seconds_total", frozenset()] < found["icecore_append_seconds_total", frozenset()]
    # The table twice, and its warehouse three times.
    assert 5 == found["icecore_read_cache_hits_total", frozenset()]
    assert 4 == found["icecore_events_served_total", frozenset()]
    assert 0 == found["icecore_event_subscribers", THIS]
    assert 1 == found["icecore_requests_total", frozenset({("operation", "listEvents"), ("status", "200")})]
    assert 1 == found["icecore_request_errors_total", frozenset({("type", "NoSuchTableException")})]
    assert 3 == found["icecore_requests_total", frozenset({("operation", "loadTable"), ("status", "200")})]
    assert 4 == found["icecore_request_seconds_count", frozenset({("operation", "loadTable")})]
    async with catalog.backends.connection() as connection:
        assert await log_head(connection) == found["icecore_log_position", frozenset()]


async def _held_seconds(catalog: Application) -> float:
    own = (await CatalogMetrics(catalog, serving=True).read()).own
    (value,) = (sample.value for family in own if family.name == "icecore_append_locked_seconds" for sample in family.samples)
    return value


async def test_the_lock_is_held_until_the_commit_but_not_while_it_is_waited_for(one: Process, catalog: Application) -> None:
    """A slow disk is seen; other processes' calls are not counted twice."""
    async with AsyncExitStack() as opened:
        other = await opened.enter_async_context(await connect(catalog.dsn, application_name="icecore-test"))
        await other.execute("select pg_advisory_lock(%s)", [AdvisoryLock.APPEND])
        before = await _held_seconds(catalog)
        waiting = asyncio.create_task(one.set("t", {"k": "1"}))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        await other.execute("select pg_advisory_unlock(%s)", [AdvisoryLock.APPEND])
        await waiting
        waited = await _held_seconds(catalog)
        assert waited - before < 0.8 < catalog.commands.committer.metrics.waited_seconds
        # It sleeps in the transaction's commit.
        await other.execute("create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.5); return null; end'")
        await other.execute(
            "create constraint trigger slow after insert on icecore.events initially deferred for each row execute function slow()"
        )
        await one.set("t", {"k": "2"})
        assert 0.5 <= await _held_seconds(catalog) - waited


async def test_only_refused_commands_count_as_refused(one: Process, catalog: Application) -> None:
    """Alone and beside others in a batch; not those that change nothing."""
    counted = catalog.commands.queues.metrics
    wrong = {"type": "assert-table-uuid", "uuid": str(uuid4())}
    for _ in range(3):
        await one.set("t", {})
    assert 0 == counted.refused
    with pytest.raises(CommitFailed):
        await one.set("t", {"k": "1"}, wrong)
    assert 1 == counted.refused
    results = await asyncio.gather(
        *(one.set("t", {"k": str(number)}, *([wrong] if number % 2 else [])) for number in range(8)), return_exceptions=True
    )
    assert 4 == sum(isinstance(result, CommitFailed) for result in results)
    assert 5 == counted.refused


async def test_an_unreachable_log_is_reported(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scrape still succeeds."""
    catalog.backends.connections._dsn = "host=127.0.0.1 port=1 dbname=none"
    await catalog.backends.connections.close()
    async with metrics_url(catalog) as url:
        found = await _scrape(url)
    assert 0 == found["icecore_log_up", THIS]
    assert ("icecore_log_position", frozenset()) not in found


async def test_a_log_that_does_not_respond_is_reported_in_time(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other metrics of the process are there."""

    async def hang(_connection: object) -> int:
        await asyncio.sleep(60)
        return 0

    monkeypatch.setattr(metrics, "LOG_SECONDS_MAX", 0.2)
    monkeypatch.setattr(metrics, "log_head", hang)
    async with asyncio.timeout(20):
        found = await CatalogMetrics(catalog, serving=True).read()
    assert [] == found.log
    assert [0] == [sample.value for family in found.own if family.name == "icecore_log_up" for sample in family.samples]


async def test_every_job_and_connection_is_counted(catalog: Application) -> None:
    """Each number under its own name."""
    jobs = {job.NAME: job for job in (catalog.purge, catalog.old_files, catalog.parts, catalog.expiry, catalog.soft_deletion)}
    assert 5 == len(jobs)
    for number, job in enumerate(jobs.values()):
        job.metrics.succeeded, job.metrics.failed, job.metrics.items = 10 + number, 20 + number, 30 + number
    catalog.backends.connections.metrics.waits, catalog.backends.connections.metrics.wait_seconds = 3, 0.5
    own = (await CatalogMetrics(catalog, serving=False).read()).own
    found = {(sample.name, *sample.labels.values()): sample.value for family in own for sample in family.samples}
    for number, name in enumerate(jobs):
        assert 10 + number == found["icecore_job_runs_total", name, "success"]
        assert 20 + number == found["icecore_job_runs_total", name, "failure"]
        assert 30 + number == found["icecore_job_items_total", name]
    assert (3, 0.5) == (found["icecore_connection_waits_total",], found["icecore_connection_wait_seconds_total",])


async def test_only_the_metrics_are_served_and_only_to_read(catalog: Application) -> None:
    """The message has the path, the response the methods."""
    async with metrics_url(catalog) as url, aiohttp.ClientSession() as session:
        async with session.head(url) as response:
            assert 200 == response.status
        async with session.post(url) as response:
            assert (405, "GET, HEAD") == (response.status, response.headers["Allow"])
        async with session.get(url.removesuffix("metrics")) as response:
            assert 404 == response.status
            assert "the metrics are at /metrics" in (await response.json())["error"]["message"]


async def test_metrics_are_for_the_server_s_own_names(catalog: Application) -> None:
    """A web page with DNS rebinding cannot read them."""
    async with metrics_url(catalog) as url, aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Host": "evil.example"}) as response:
            assert 403 == response.status
            assert "ForbiddenException" == (await response.json())["error"]["type"]
        async with session.get(url, headers={"Host": "localhost:1"}) as response:
            assert 200 == response.status


async def test_the_build_the_process_and_the_lag_of_sinks_are_there(catalog: Application) -> None:
    """One sink had a leader and is one event behind; another has a leader and failed."""
    async with await connect(catalog.dsn) as connection:
        head = await log_head(connection)
        insert = "insert into icecore.sinks (name, epoch, position, leader, led_since, last_error) values (%s, 1, %s, 'x', now(), %s)"
        await connection.execute(insert, ("behind", head - 1, None))
        await connection.execute(insert, ("failing", head, "refused"))
        async with locked(catalog.dsn, "failing"), metrics_url(catalog) as url:
            found = await _scrape(url)
    assert 1 == found["icecore_build_info", frozenset({("version", icecore_version())})]
    assert 0 < found["process_resident_memory_bytes", THIS]

    def of(sink: str) -> tuple[float, float, float]:
        label = frozenset({("sink", sink)})
        return tuple(found[f"icecore_sink_{name}", label] for name in ("lag_events", "has_leader", "failing"))  # type: ignore[return-value]

    assert (1, 0, 0) == of("behind")
    assert (0, 1, 1) == of("failing")
    assert 0 < found["icecore_sink_lag_seconds", frozenset({("sink", "behind")})] < 600
    assert 0 == found["icecore_sink_lag_seconds", frozenset({("sink", "failing")})]
