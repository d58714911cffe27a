"""Shared by the tests of history: a catalog served in the test's event loop, and clients that read raw responses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from icecore.api.server import build_runner
from icecore.compose import Application

ANSWER_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """The refusal as (status, type)."""
        error = self.json["error"]
        assert {"message", "type", "code"} == set(error)
        assert self.status == error["code"]
        assert self.headers["x-request-id"]
        return self.status, error["type"]

    @property
    def positions(self) -> list[int]:
        """The positions of a page's events."""
        return [int(event["position"]) for event in self.json["events"]]


@dataclass(frozen=True, slots=True)
class Streamed:
    """One event of a stream."""

    id: int
    type: str
    data: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.data)


@dataclass(slots=True)
class EventStream:
    """An open response with events as `text/event-stream`, without comments."""

    response: aiohttp.ClientResponse
    comments: list[str] = field(default_factory=list)

    async def next(self) -> Streamed | None:
        """The next event; None if the server has ended the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            while line := await self.response.content.readuntil(b"\n"):
                text = line.decode().removesuffix("\n")
                name, _, value = text.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
                elif text:
                    self.comments.append(value.strip())
                elif fields:
                    assert {"id", "event", "data"} == set(fields)
                    return Streamed(int(fields["id"]), fields["event"], fields["data"].encode())
        assert not fields, "the stream ended within an event"
        return None

    async def take(self, count: int) -> list[Streamed]:
        taken = [await self.next() for _ in range(count)]
        assert None not in taken, "the stream ended"
        return [each for each in taken if each is not None]

    async def rest(self) -> list[Streamed]:
        """All events up to the end of the stream."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@dataclass(frozen=True, slots=True)
class Served:
    """A catalog served at `url`."""

    catalog: Application
    url: str
    runner: web.AppRunner
    session: aiohttp.ClientSession

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: object) -> Answered:
        """`path` follows /history/v1."""
        return await self.ask("GET", f"/history/v1{path}", headers=headers, query=query)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Answered:
        parameters = {name.replace("_", "-"): str(value) for name, value in (query or {}).items()}
        async with self.session.request(method, self.url + path, json=body, params=parameters, headers=headers) as response:
            return Answered(response.status, {name.lower(): value for name, value in response.headers.items()}, await response.read())

    @contextlib.asynccontextmanager
    async def stream(self, *, last_event_id: object = None, **query: object) -> AsyncIterator[EventStream]:
        headers = {"Accept": "text/event-stream"} | ({} if last_event_id is None else {"Last-Event-ID": str(last_event_id)})
        parameters = {name.replace("_", "-"): str(value) for name, value in query.items()}
        async with self.session.get(f"{self.url}/history/v1/events", params=parameters, headers=headers) as response:
            assert 200 == response.status, await response.read()
            yield EventStream(response)


@contextlib.asynccontextmanager
async def serving(catalog: Application) -> AsyncIterator[Served]:
    """The catalog on a port of loopback for the length of the block."""
    runner = build_runner(catalog.app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=ANSWER_SECONDS_MAX)
        # Longer than any line in a test.
        async with aiohttp.ClientSession(timeout=timeout, read_bufsize=8 * 1024 * 1024) as session:
            yield Served(catalog, url, runner, session)
    finally:
        await runner.cleanup()
