"""The handling of one connection among several, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from icecore.api import server
from icecore.api.api_request import ApiRequest
from icecore.api.limits import ApiLimits
from icecore.api.routing import Operation
from icecore.api.server import build_app, build_runner
from tests.fixtures.empty_catalog import empty_catalog

CONNECTIONS_MAX = 2
ENDED_SECONDS_MAX = 5.0
LINGERING_SECONDS = 30.0
"""How long aiohttp continues to read after answering an incomplete body: longer than a test waits."""

REQUEST = b"GET /v1/read HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNREAD = b"POST /v1/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL_CHUNKS = b"1;" + b"x" * 1_000 + b"\r\n \r\n"

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def respond(request: ApiRequest) -> web.Response:
    return await request.json_bytes(b'""')


@pytest_asyncio.fixture
async def connect(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    monkeypatch.setattr(server, "_LINGERING_SECONDS", LINGERING_SECONDS)
    limits = ApiLimits(connections_max=CONNECTIONS_MAX)
    operations = (Operation("read", "GET", "/catalog/v1/read", respond), Operation("write", "POST", "/catalog/v1/read", respond))
    runner = build_runner(build_app(empty_catalog(limits), operations))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        opened.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for each in opened:
            each.close()
        await runner.cleanup()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REQUEST)
    assert b"HTTP/1.1 200 OK\r\n" == await reader.readline()
    await reader.readuntil(b'""')


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(ENDED_SECONDS_MAX):
            return b"" == await reader.read()
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def test_the_connection_that_was_answered_longest_ago_makes_room(connect: Connect) -> None:
    """Regardless of when it was opened."""
    first, second = await connect(), await connect()
    await ask(*second)
    await ask(*first)
    third = await connect()
    await ask(*third)
    assert await is_ended(second[0])
    await ask(*first)


async def test_small_chunks_behind_a_response_end_the_connection(connect: Connect) -> None:
    """The request was answered before its body. Chunks that will not be read must not accumulate."""
    reader, writer = await connect()
    writer.write(UNREAD)
    assert b"HTTP/1.1 200 OK\r\n" == await reader.readline()
    for _ in range(20):
        writer.write(SMALL_CHUNKS)
        await asyncio.sleep(0)
    assert await is_ended(reader)
