"""Webhooks: events in order, signed, repeated until accepted, at least once with stable ids, whatever the endpoint responds."""

import asyncio
import base64
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import psycopg
import pytest
from aiohttp import web
from pydantic import SecretStr

from icecore.publishers import checkpoints, publisher
from icecore.publishers.event_filter import EventFilter
from icecore.settings import Settings
from icecore.sinks import run_publishers
from tests.fixtures.catalog import opened_catalog
from tests.fixtures.command_runs import CommandRun, Step
from tests.integration.history import test_event_stream
from tests.integration.history.test_event_stream import roll_back
from tests.integration.publishers.publishing import Nursery, Writer, commit_property, log_ids, row, until, until_published

SECRET = "a secret of both sides"


class Endpoint:
    """A real HTTP endpoint that verifies signatures, records events, and responses as configured."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.asked = 0
        self.current = ""
        self.response: Callable[[int], Awaitable[web.StreamResponse | None]] | None = None
        self.elsewhere: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.url = ""

    async def handle_elsewhere(self, request: web.Request) -> web.StreamResponse:
        assert self.elsewhere is not None
        return await self.elsewhere(request)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked += 1
        signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + body
        expected = base64.b64encode(hmac.digest(SECRET.encode(), signed, "sha256")).decode()
        assert f"v1,{expected}" == request.headers["webhook-signature"]
        event = orjson.loads(body)
        assert event["id"] == request.headers["webhook-id"]
        self.current = event["id"]
        if self.response is not None:
            refusal = await self.response(self.asked)
            if refusal is not None:
                return refusal
        self.taken.append(event)
        return web.Response(status=204)

    @property
    def ids(self) -> list[str]:
        return [event["id"] for event in self.taken]

    def sink(self, **settings: Any) -> dict[str, Any]:
        return {"type": "webhook", "url": self.url, "secret": SECRET, "timeout_seconds": 1, **settings}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """On a free port of loopback."""
    opened = Endpoint()
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/hook", opened.handle)
    app.router.add_route("*", "/elsewhere", opened.handle_elsewhere)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    opened.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield opened
    await runner.cleanup()


@asynccontextmanager
async def publishing(database: str, sinks: dict[str, dict[str, Any]]) -> AsyncIterator[None]:
    """A publisher in this process."""
    settings = Settings(database_url=SecretStr(database), sinks=sinks)  # type: ignore[arg-type]
    stop = asyncio.Event()
    task = asyncio.create_task(run_publishers(settings, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def test_every_event_in_order_and_signed(database: str, log: list[str], endpoint: Endpoint) -> None:
    """Once each, if nothing fails."""
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")
    assert log == endpoint.ids


async def test_an_event_larger_than_the_setting_goes_out_by_reference(database: str, tmp_path: Path, endpoint: Endpoint) -> None:
    """Smaller events are sent whole."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        run = await CommandRun.on(catalog)
        for step in (Step("create_namespace"), Step("create_table")):
            await run.step(step)
        await commit_property(run, "t", "large", "x" * 20_000)
        await commit_property(run, "t", "small", "y")
    async with publishing(database, {"hook": endpoint.sink(event_bytes_max=20_000)}):
        await until_published(database, "hook")
    assert log_ids(database) == endpoint.ids
    assert [False] * (len(endpoint.taken) - 2) + [True, False] == ["dataref" in event for event in endpoint.taken]


async def test_two_endpoints_have_positions_of_their_own(database: str, log: list[str], endpoint: Endpoint) -> None:
    """An unreachable endpoint delays only its own sink."""
    away = {**endpoint.sink(), "url": "http://127.0.0.1:9/hook"}
    async with publishing(database, {"hook": endpoint.sink(), "away": away}):
        await until_published(database, "hook")

        async def failed() -> bool:
            state = await row(database, "position, last_error", "away")
            return state is not None and state[0] == 0 and "did not respond" in (state[1] or "")

        await until(failed, what="the one that is away is reported")
    assert log == endpoint.ids


async def test_an_endpoint_that_asks_for_time_gets_it(database: str, log: list[str], endpoint: Endpoint) -> None:
    """Retry-After in seconds and as a date: no request before, then the same event again."""
    refused_at: list[float] = []
    gaps: list[float] = []

    async def response(number: int) -> web.StreamResponse | None:
        if len(gaps) < len(refused_at):
            gaps.append(time.time() - refused_at[-1])
        if number not in (2, 5):
            return None
        refused_at.append(time.time())
        # A date has whole seconds.
        return web.Response(status=429, headers={"Retry-After": "2" if number == 2 else formatdate(refused_at[-1] + 3, usegmt=True)})

    endpoint.response = response
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")
    assert log == endpoint.ids
    assert len(log) + 2 == endpoint.asked
    assert [True, True] == [gap >= 1.9 for gap in gaps]


@pytest.mark.parametrize("status", [301, 404, 503])
async def test_a_refused_event_is_repeated_until_it_is_accepted(database: str, log: list[str], endpoint: Endpoint, status: int) -> None:
    """Every fifth request fails. Each event is repeated until it is accepted, in order."""

    async def response(number: int) -> web.StreamResponse | None:
        return web.Response(status=status, headers={"Location": "http://127.0.0.1:9/"}) if number % 5 == 0 else None

    endpoint.response = response
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")
    assert log == endpoint.ids
    assert endpoint.asked > len(log)


@pytest.mark.parametrize("status", [303, 307])
async def test_no_redirect_is_followed(database: str, log: list[str], endpoint: Endpoint, status: int) -> None:
    """The redirect's target gets neither the event nor the signature."""
    elsewhere: list[str] = []

    async def response(number: int) -> web.StreamResponse | None:
        if number > 2:
            return None
        return web.Response(status=status, headers={"Location": endpoint.url.replace("/hook", "/elsewhere")})

    async def taken(request: web.Request) -> web.StreamResponse:
        elsewhere.append(request.method)
        return web.Response(status=204)

    endpoint.response, endpoint.elsewhere = response, taken
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")
    assert [] == elsewhere
    assert (log, len(log) + 2) == (endpoint.ids, endpoint.asked)


async def test_responses_that_break_every_schema(database: str, log: list[str], endpoint: Endpoint) -> None:
    """Only the status counts. Invalid JSON, wrong types, endless bodies and timeouts neither stop nor skip anything."""

    async def response(number: int) -> web.StreamResponse | None:
        match number:
            case 2:
                return web.Response(status=500, body=b"\xff\x00{]" * 100_000, content_type="application/json")
            case 4:
                raise ConnectionResetError
            case 6:
                await asyncio.sleep(1.5)  # Longer than the sink's timeout.
                return web.Response(status=500)
            case 8:
                return web.Response(status=500, headers={"Content-Encoding": "gzip"}, body=b"no gzip")
        return None

    endpoint.response = response
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")
    assert log == endpoint.ids


async def test_a_rejected_event_waits_for_the_operator_s_skip(database: str, log: list[str], endpoint: Endpoint) -> None:
    """Earlier events are delivered, and the error names the event. Later ones are sent after the operator skips it, and the skip is
    recorded.
    """
    poisoned = log[11]

    async def response(number: int) -> web.StreamResponse | None:
        return web.Response(status=422) if endpoint.current == poisoned else None

    endpoint.response = response
    async with publishing(database, {"hook": endpoint.sink()}):

        async def blocked() -> bool:
            return await row(database, "position, blocked_position", "hook") == (11, 12)

        await until(blocked, what="position 12 is named")
        await asyncio.sleep(0.5)
        assert log[:11] == endpoint.ids
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            assert await checkpoints.skip(connection, "hook", 12, "cannot be parsed over there", "operator")
        await until_published(database, "hook")
    assert [*log[:11], *log[12:]] == endpoint.ids
    with psycopg.connect(database, autocommit=True) as asked:
        kept = asked.execute("select event_id::text, reason, actor from icecore.sink_skips").fetchall()
        assert [(poisoned, "cannot be parsed over there", "operator")] == kept
        with pytest.raises(psycopg.Error, match="append-only"):
            asked.execute("delete from icecore.sink_skips")


async def test_batches_that_are_cut_leave_nothing_out(
    database: str, tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size of what their events refer to, for live events and a concurrent replay."""
    monkeypatch.setattr(publisher, "ENRICHED_BYTES_MAX", 3_000)
    monkeypatch.setattr(test_event_stream, "SUMMARY_BYTES", 1_000)
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        await roll_back(await CommandRun.on(catalog), tmp_path / "warehouse")
    log = log_ids(database)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await checkpoints.request_replay(connection, uuid4(), "hook", 1, len(log), EventFilter())
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")

        async def ended() -> bool:
            async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
                cursor = await connection.execute("select finished_at is not null from icecore.sink_replays")
                return await cursor.fetchone() == (True,)

        await until(ended, what="the replay ends")
    assert log == [event["id"] for event in endpoint.taken if "replay" not in event]
    assert log == [event["replayof"] for event in endpoint.taken if "replay" in event]


async def test_a_failed_replay_beyond_the_live_position_hides_no_event(database: str, log: list[str], endpoint: Endpoint) -> None:
    """A sink that is behind continues from its position, however far a replay of earlier events is, and the replay continues too."""
    asked: list[str] = []

    async def response(number: int) -> web.StreamResponse | None:
        asked.append(endpoint.current)
        replayed = sum(":" in each for each in asked)
        return web.Response(status=503) if replayed == 3 and ":" in endpoint.current else None

    endpoint.response = response
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        await checkpoints.request_replay(connection, uuid4(), "hook", 24, len(log), EventFilter())
    async with publishing(database, {"hook": endpoint.sink()}):
        await until_published(database, "hook")

        async def ended() -> bool:
            return len({event["id"] for event in endpoint.taken if "replay" in event}) == len(log) - 23

        await until(ended, what="the replay ends")
    assert log == [event["id"] for event in endpoint.taken if "replay" not in event]
    assert log[23:] == [event["replayof"] for event in endpoint.taken if "replay" in event]


async def test_kills_lose_nothing_and_repeat_under_the_same_ids(
    database: str, endpoint: Endpoint, nursery: Nursery, tmp_path: Path
) -> None:
    """At least once: repeated events have the same id and bytes, and first publications are in order."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        writer = await Writer.on(catalog)
        writer.start()
        for _ in range(6):
            process = nursery.start(database, {"hook": endpoint.sink()}, tmp_path)
            taken = len(endpoint.taken)

            async def goes_on(taken: int = taken) -> bool:
                return len(endpoint.taken) > taken + 5

            await until(goes_on, what="events arrive")
            process.kill()
        await writer.stop()
        process = nursery.start(database, {"hook": endpoint.sink()}, tmp_path)
        await until_published(database, "hook")
        process.stop()
    assert log_ids(database) == list(dict.fromkeys(endpoint.ids))
    bodies: dict[str, dict[str, Any]] = {}
    for event in endpoint.taken:
        assert bodies.setdefault(event["id"], event) == event
