"""Tasks that retry during an outage of Postgres log it once when it begins and once when it ends."""

import asyncio
import contextlib
from collections import Counter
from functools import partial
from pathlib import Path

import psycopg
import pytest
import structlog
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from icecore.compose import Application
from icecore.log.follow import follow_events
from icecore.log.listener import LogListener
from icecore.publishers.event_filter import EventFilter
from icecore.publishers.publisher import Publisher
from icecore.publishers.sink_settings import StandardOutputSink
from icecore.publishers.standard_output import StandardOutput
from tests.fixtures.catalog import opened_catalog

ROUND_SECONDS = 0.1
OUTAGE_SECONDS = 1.5
LOGGED_SECONDS_MAX = 10.0
BEGAN = {
    ("job_retrying", "purge"),
    ("job_retrying", "close-parts"),
    ("job_retrying", "expire-proposals"),
    ("listener_reconnecting", None),
    ("subscriber_reconnecting", None),
    ("sink_database_unreachable", "printed"),
}
ENDED = {
    ("job_recovered", "purge"),
    ("job_recovered", "close-parts"),
    ("job_recovered", "expire-proposals"),
    ("listener_reconnected", None),
    ("subscriber_reconnected", None),
    ("sink_database_recovered", "printed"),
}


def closed(admin_dsn: str, name: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} with allow_connections false").format(sql.Identifier(name)))
        connection.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", (name,))


def opened(admin_dsn: str, name: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} with allow_connections true").format(sql.Identifier(name)))


async def follow(catalog: Application) -> None:
    async for _ in follow_events(catalog.dsn, 0):
        pass


async def test_each_logs_an_outage_once(database: str, admin_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen rounds fail. A second outage is logged separately."""
    for pause in ("icecore.commands.execution.leader_job.POLL_SECONDS", "icecore.publishers.publisher.TAKE_OVER_SECONDS"):
        monkeypatch.setattr(pause, ROUND_SECONDS)
    for module in ("listener", "follow"):
        monkeypatch.setattr(f"icecore.log.{module}._RECONNECT_SECONDS_MAX", ROUND_SECONDS)
    name = str(conninfo_to_dict(database)["dbname"])
    stop = asyncio.Event()
    async with opened_catalog(database, tmp_path / "warehouse", jobs=True) as catalog:
        settings = StandardOutputSink(type="stdout")
        printed = partial(StandardOutput, "printed", settings, "")
        publisher = Publisher(database, "printed", printed, event_filter=EventFilter(), dialect="icecore", start="now")
        listener = LogListener(database)
        tasks = [asyncio.create_task(follow(catalog)), asyncio.create_task(publisher.run(stop))]
        assert await listener.after(0, LOGGED_SECONDS_MAX)
        await until_all_are_connected(database)
        for _ in range(2):
            with structlog.testing.capture_logs() as records:
                closed(admin_dsn, name)
                await asyncio.sleep(OUTAGE_SECONDS)
                opened(admin_dsn, name)
                async with asyncio.timeout(LOGGED_SECONDS_MAX):
                    while not set(logged(records)) >= ENDED:
                        await asyncio.sleep(0.02)
            assert dict.fromkeys(BEGAN | ENDED, 1) == {each: count for each, count in logged(records).items() if each in BEGAN | ENDED}
            assert {"sink_leader_started"} >= {event for (event, _), count in logged(records).items() if count > 1}
        stop.set()
        await listener.close()
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


@pytest.mark.parametrize("reader", ["listener", "subscriber"])
async def test_each_pause_is_twice_the_one_before_up_to_a_bound(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    """A long outage causes few attempts, and a short one ends quickly."""
    dsn, pauses, sleep = f"host=127.0.0.1 port={unused_tcp_port}", list[float](), asyncio.sleep
    loop = asyncio.get_running_loop()

    async def pause(seconds: float) -> None:
        if asyncio.get_running_loop() is not loop:  # The shared server runs in a thread of this process.
            await sleep(seconds)
            return
        if seconds:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    listener = LogListener(dsn)
    waits = listener.after(0, LOGGED_SECONDS_MAX) if reader == "listener" else anext(follow_events(dsn, 0))
    waiting = asyncio.ensure_future(waits)
    async with asyncio.timeout(LOGGED_SECONDS_MAX):
        while len(pauses) < 7:
            await sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await listener.close()
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0] == pauses[:7]


def logged(records: list[structlog.typing.EventDict]) -> Counter[tuple[str, str | None]]:
    """The number of each record, by its name and owner."""
    return Counter((record["event"], record.get("job") or record.get("sink")) for record in records)  # type: ignore[misc]


async def until_all_are_connected(dsn: str) -> None:
    async with asyncio.timeout(LOGGED_SECONDS_MAX), await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        names = {"icecore-subscriber", "icecore-sink-printed", "icecore-reads"}
        found: set[str] = set()
        while not names <= found:
            rows = await connection.execute("select distinct application_name from pg_stat_activity where datname = current_database()")
            found = {name async for (name,) in rows}
            await asyncio.sleep(0.02)
