"""The handling of one connection among several, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from aiohttp import web

from icecore.api import connections, server
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
SIZED_BYTES = 50_000
SIZED = b"POST /v1/body HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % SIZED_BYTES
SMALL_CHUNKS = b"1;" + b"x" * 1_000 + b"\r\n \r\n"

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def respond(request: ApiRequest) -> web.Response:
    return await request.json_bytes(b'""')


async def read(request: ApiRequest) -> web.Response:
    await request.http_request.read()
    return await request.json_bytes(b'""')


@pytest_asyncio.fixture
async def connect(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    monkeypatch.setattr(server, "_LINGERING_SECONDS", LINGERING_SECONDS)
    limits = ApiLimits(connections_max=CONNECTIONS_MAX)
    operations = (
        Operation("read", "GET", "/catalog/v1/read", respond),
        Operation("write", "POST", "/catalog/v1/read", respond),
        Operation("body", "POST", "/catalog/v1/body", read),
    )
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


async def send_body(writer: asyncio.StreamWriter, piece: bytes, seconds: float) -> None:
    """Sends the head of a large body, and then a piece of it ten times a second."""
    writer.write(SIZED)
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        writer.write(piece)
        await asyncio.sleep(0.1)


async def test_a_body_that_arrives_slowly_makes_room_before_an_idle_connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Single bytes are progress, but too little."""
    monkeypatch.setattr(connections, "BEHIND_SECONDS_MAX", 0.5)
    idle, slow = await connect(), await connect()
    await ask(*idle)
    await send_body(slow[1], b" ", 1.0)
    await ask(*await connect())
    assert await is_ended(slow[0])
    await ask(*idle)


async def test_a_head_that_arrives_slowly_makes_room_before_an_idle_connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BEHIND_SECONDS_MAX", 0.2)
    idle, slow = await connect(), await connect()
    await ask(*idle)
    await ask(*slow)
    slow[1].write(REQUEST[:10])
    await asyncio.sleep(0.5)
    await ask(*await connect())
    assert await is_ended(slow[0])
    await ask(*idle)


async def test_bodies_of_an_ordinary_rate_arrive(connect: Connect) -> None:
    """Although there are too many connections, of which none is idle. The others are closed."""
    opened = [await connect(), await connect()]
    for _, writer in opened:
        writer.write(REQUEST)
    for reader, _ in opened:
        await reader.readuntil(b'""')
    # 16 KB a second.
    sending = [asyncio.create_task(send_body(writer, b" " * 1_600, 2.0)) for _, writer in opened]
    await asyncio.sleep(1.0)
    for _ in range(3):
        assert await is_ended((await connect())[0])
    await asyncio.gather(*sending)
    for reader, writer in opened:
        writer.write(b" " * SIZED_BYTES)
        assert b"HTTP/1.1 200 OK\r\n" == await reader.readline()


async def test_bodies_behind_their_responses_make_room(connect: Connect) -> None:
    """The requests were answered before their bodies, which do not arrive."""
    for _ in range(CONNECTIONS_MAX):
        reader, writer = await connect()
        writer.write(UNREAD)
        await reader.readuntil(b'""')
    await asyncio.sleep(0.1)
    await ask(*await connect())


async def test_small_chunks_behind_a_response_end_the_connection(connect: Connect) -> None:
    """The request was answered before its body. Chunks that will not be read must not accumulate."""
    reader, writer = await connect()
    writer.write(UNREAD)
    assert b"HTTP/1.1 200 OK\r\n" == await reader.readline()
    for _ in range(20):
        writer.write(SMALL_CHUNKS)
        await asyncio.sleep(0)
    assert await is_ended(reader)
