"""A connection that is accepted while its server stops is closed by the server, in whichever order the event loop processes both."""

import asyncio
import gc
import socket

import pytest
from aiohttp import web

from icecore.api.accepting import stop_accepting
from icecore.api.limits import ApiLimits
from icecore.api.server import build_app, build_runner
from tests.fixtures.empty_catalog import empty_catalog

TURNS_MAX = 6
"""Turns of the event loop between the connection's arrival and the stop. Later, the connection is an ordinary one."""

CLEANUP_SECONDS_MAX = 5.0
"""aiohttp waits a minute for a connection that it closes before its handler has begun."""


async def connected(address: tuple[str, int], turns: int) -> socket.socket:
    opened = socket.socket()
    # On loopback this completes at once.
    opened.connect(address)
    opened.setblocking(False)
    for _ in range(turns):
        await asyncio.sleep(0)
    return opened


async def is_closed(opened: socket.socket) -> bool:
    """Whether it is closed within half a second, by an end or a reset."""
    try:
        async with asyncio.timeout(0.5):
            return b"" == await asyncio.get_running_loop().sock_recv(opened, 1)
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("turns", range(TURNS_MAX))
async def test_by_the_server_of_the_catalog(turns: int) -> None:
    app = build_app(empty_catalog(ApiLimits()))
    runner = build_runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    # One turn in which the event loop processes both, as when a client connects at the moment of the stop.
    await asyncio.sleep(0.01)
    with await connected(runner.addresses[0][:2], turns) as client:
        async with asyncio.timeout(CLEANUP_SECONDS_MAX):
            await runner.cleanup()
        assert await is_closed(client)
    gc.collect()


@pytest.mark.parametrize("turns", range(TURNS_MAX))
async def test_by_a_server_that_takes_no_more(turns: int) -> None:
    """Every accepted connection reaches its handler. asyncio alone would leave it open if the server is closed first."""
    served: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: served.append(writer), "127.0.0.1", 0)
    await asyncio.sleep(0.01)
    with await connected(server.sockets[0].getsockname(), turns) as client:
        await stop_accepting(server.sockets)
        server.close()
        for writer in served:
            writer.close()
        assert await is_closed(client)
    gc.collect()
