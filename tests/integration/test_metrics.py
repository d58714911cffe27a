"""Prometheus metrics of a process that serves and commits."""

from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from icecore.api.server import build_runner
from icecore.compose import Application
from icecore.database.connection import connect
from icecore.log.head import log_head
from icecore.metrics import served_metrics
from icecore.publishers.checkpoints import locked
from icecore.version import icecore_version
from tests.integration.test_stream_queues import Process, one

__all__ = ["one"]


async def _scrape(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = await answer.text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_what_happened_is_counted(one: Process, catalog: Application, tmp_path: Path) -> None:
    """Commits, batches, calls of append, the log's position, requests and refusals, each where it belongs."""
    for n in range(3):
        await one.set("t", {"k": str(n)})
    runner = build_runner(catalog.app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    root = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/demo/namespaces"
    async with served_metrics(catalog, "127.0.0.1", 0) as url, aiohttp.ClientSession() as session:
        for table in ("t", "t", "t", "missing"):
            (await session.get(f"{root}/a/tables/{table}")).release()
        (await session.get(f"{root.removesuffix('/v1/demo/namespaces')}/history/v1/events?to=4")).release()
        found = await _scrape(url)
    await runner.cleanup()
    assert 3 == found["icecore_stream_batch_commands_count", frozenset()]
    assert 3 <= found["icecore_append_commands_count", frozenset()]
    assert 0 < found["icecore_append_locked_seconds_total", frozenset()] < found["icecore_append_seconds_total", frozenset()]
    assert 2 == found["icecore_read_cache_hits_total", frozenset()]
    assert 4 == found["icecore_events_served_total", frozenset()]
    assert 0 == found["icecore_event_subscribers", frozenset()]
    assert 1 == found["icecore_requests_total", frozenset({("operation", "listEvents"), ("status", "200")})]
    assert 1 == found["icecore_refusals_total", frozenset({("type", "NoSuchTableException")})]
    assert 3 == found["icecore_requests_total", frozenset({("operation", "loadTable"), ("status", "200")})]
    assert 4 == found["icecore_request_seconds_count", frozenset({("operation", "loadTable")})]
    async with catalog.backends.connection() as connection:
        assert await log_head(connection) == found["icecore_log_position", frozenset()]


async def test_a_log_that_is_away_is_said(catalog: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scrape still answers."""
    catalog.backends.connections._dsn = "host=127.0.0.1 port=1 dbname=none"
    await catalog.backends.connections.close()
    async with served_metrics(catalog, "127.0.0.1", 0) as url:
        found = await _scrape(url)
    assert 0 == found["icecore_log_up", frozenset()]
    assert ("icecore_log_position", frozenset()) not in found


async def test_metrics_are_for_the_server_s_own_names(catalog: Application) -> None:
    """A web page whose name leads here by DNS rebinding reads none."""
    async with served_metrics(catalog, "127.0.0.1", 0) as url, aiohttp.ClientSession() as session:
        async with session.get(url, headers={"Host": "evil.example"}) as answer:
            assert 403 == answer.status
            assert "ForbiddenException" == (await answer.json())["error"]["type"]
        async with session.get(url, headers={"Host": "localhost:1"}) as answer:
            assert 200 == answer.status


async def test_the_build_the_process_and_the_lag_of_sinks_are_there(catalog: Application) -> None:
    """A sink that was led, and is one event behind; one that a process leads, and that failed."""
    async with await connect(catalog.dsn) as connection:
        head = await log_head(connection)
        insert = "insert into icecore.sinks (name, epoch, position, leader, led_since, last_error) values (%s, 1, %s, 'x', now(), %s)"
        await connection.execute(insert, ("behind", head - 1, None))
        await connection.execute(insert, ("failing", head, "refused"))
        async with locked(catalog.dsn, "failing"), served_metrics(catalog, "127.0.0.1", 0) as url:
            found = await _scrape(url)
    assert 1 == found["icecore_build_info", frozenset({("version", icecore_version())})]
    assert 0 < found["process_resident_memory_bytes", frozenset()]

    def of(sink: str) -> tuple[float, float, float]:
        label = frozenset({("sink", sink)})
        return tuple(found[f"icecore_sink_{name}", label] for name in ("lag_events", "led", "failing"))  # type: ignore[return-value]

    assert (1, 0, 0) == of("behind")
    assert (0, 1, 1) == of("failing")
    assert 0 < found["icecore_sink_lag_seconds", frozenset({("sink", "behind")})] < 600
    assert 0 == found["icecore_sink_lag_seconds", frozenset({("sink", "failing")})]
