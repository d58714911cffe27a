"""Clients that read a large response slowly, over real sockets, whose kernel buffers hold megabytes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from icecore.api.api_request import ApiRequest
from icecore.api.limits import ApiLimits
from icecore.api.protocol import EdgeRunner
from icecore.api.routing import Operation
from icecore.api.server import build_app, build_runner
from tests.fixtures.empty_catalog import empty_catalog

STALL_SECONDS = 2.0
RATE_MIN = 50_000
BODY_BYTES = 12_000_000
REQUEST = b"GET /v1/read HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def respond(request: ApiRequest) -> web.Response:
    return await request.json_bytes(b'"%s"' % (b"x" * BODY_BYTES))


@asynccontextmanager
async def serving() -> AsyncIterator[EdgeRunner]:
    limits = ApiLimits(stall_seconds_max=STALL_SECONDS, response_rate_min=RATE_MIN)
    started = build_runner(build_app(empty_catalog(limits), [Operation("read", "GET", "/catalog/v1/read", respond)]))
    await started.setup()
    await web.TCPSite(started, "127.0.0.1", 0).start()
    try:
        yield started
    finally:
        await started.cleanup()


async def connected_seconds(rate: int, seconds_max: float) -> float:
    """For how long a server keeps the connection of a client that reads at this rate, in bytes per second."""
    loop = asyncio.get_running_loop()
    async with serving() as runner:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
            client.setblocking(False)
            await loop.sock_connect(client, runner.addresses[0][:2])
            await loop.sock_sendall(client, REQUEST)
            started, received = loop.time(), 0
            while not len(runner.connections):
                await asyncio.sleep(0.01)
            while len(runner.connections) and (elapsed := loop.time() - started) < seconds_max:
                if rate:
                    received += len(await loop.sock_recv(client, max(int(rate * elapsed) - received, 1)))
                await asyncio.sleep(0.05)
            return loop.time() - started


async def test_only_clients_that_read_more_slowly_than_the_lowest_rate_lose_their_connections() -> None:
    """Although the kernel takes the next part of a response only after seconds. At the same time, each on a server of its own."""
    steady, slow = (2 * RATE_MIN, 10 * RATE_MIN), (0, RATE_MIN // 5)
    kept = await asyncio.gather(*(connected_seconds(rate, 4 * STALL_SECONDS) for rate in (*steady, *slow)))
    assert [True, True] == [4 * STALL_SECONDS <= seconds for seconds in kept[:2]], kept
    assert [True, True] == [STALL_SECONDS / 2 < seconds < 3 * STALL_SECONDS for seconds in kept[2:]], kept
