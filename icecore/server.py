"""One serving process: the catalog on a listening socket until it is stopped."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Sequence

import structlog
from aiohttp import web

from .allocator import return_large_blocks
from .api.protocol import EdgeRunner
from .api.server import build_runner
from .compose import Application, open_catalog
from .listening import BACKLOG_CONNECTIONS_MAX, Unattended, permit_descriptors
from .metrics import served_metrics
from .settings import Settings

CLOSE_SECONDS_MAX = 1.0
LOOK_EVERY_SECONDS = 0.125
"""At connections that wait for other workers."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.server")


OBJECTS_PER_COLLECTION = 20_000
"""Requests leave no cycles, and a cache of 10,000 tables is looked through for nothing: at Python's 700 that takes a third of a load."""
THREAD_SWITCH_SECONDS = 0.0005
"""Threads decide on large tables; the event loop asks for its turn several times per request, and waits this long for each."""


async def run_server(
    settings: Settings,
    listening: socket.socket,
    *,
    others: Sequence[socket.socket] = (),
    ready: Callable[[], None],
    stop: asyncio.Event,
    worker: int = 0,
) -> None:
    """Serves on `listening` until `stop` is set, then lets the requests in flight finish within shutdown_grace_seconds.

    others -- sockets of other workers, whose connections are taken where their own worker is too long about it, or has died.
    worker -- its number among the workers, from 0: each has metrics of its own, on the port that many above metrics_port.
    ready -- called once, when requests are answered.
    """
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    return_large_blocks()
    permit_descriptors()
    async with open_catalog(settings) as catalog, _metrics(catalog, settings, worker):
        runner = build_runner(catalog.app)
        await runner.setup()
        site = web.SockSite(runner, listening, backlog=BACKLOG_CONNECTIONS_MAX)
        try:
            await site.start()
            # What is loaded by now stays.
            gc.freeze()
            gc.set_threshold(OBJECTS_PER_COLLECTION)
            ready()
            await _take_over_until(stop, runner, others)
            for opened in others:
                opened.close()
            catalog.stop_serving()
            await runner.stop_accepting()
            await _accept_waiting(runner, listening)
            await _finish(site, runner, settings.shutdown_grace_seconds)
        finally:
            # What is left now are requests and answers beyond the grace.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await runner.cleanup()


async def _take_over_until(stop: asyncio.Event, runner: EdgeRunner, others: Sequence[socket.socket]) -> None:
    """Returns when `stop` is set; until then takes the connections that other workers leave waiting. Seldom are there any."""
    unattended = Unattended(others)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS if others else None):
                await stop.wait()
                return
        for opened in unattended.look():
            await _accept_waiting(runner, opened)


async def _accept_waiting(runner: EdgeRunner, opened: socket.socket) -> None:
    """Takes the connections that wait at a socket. One that is closed resets them, and what was sent on them is lost."""
    loop = asyncio.get_running_loop()
    assert runner.server is not None, "it is set up"
    # None waits any more, one has gone again, or there are no descriptors left.
    with contextlib.suppress(OSError):
        while True:
            connection, _ = opened.accept()
            connection.setblocking(False)
            await loop.connect_accepted_socket(runner.server, connection)


def _metrics(catalog: Application, settings: Settings, worker: int) -> contextlib.AbstractAsyncContextManager[object]:
    if settings.metrics_port is None:
        return contextlib.nullcontext()
    return served_metrics(catalog, settings.host, settings.metrics_port + worker)


async def _finish(site: web.SockSite, runner: EdgeRunner, grace_seconds: float) -> None:
    """Closes the socket first: who is refused from now on goes elsewhere."""
    await site.stop()
    try:
        async with asyncio.timeout(grace_seconds):
            await runner.drain()
            # Idle connections end at once, others with the answer that is on its way.
            await runner.cleanup()
    except TimeoutError:
        _log.warning("requests cut off: they took longer than the grace period", shutdown_grace_seconds=grace_seconds)


def stop_on_signals(stop: asyncio.Event, *signals: signal.Signals) -> None:
    """The first signal asks for a graceful stop; the second one ends the process as if it had asked for nothing."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        _log.info("stopping", signal=number.name)
        stop.set()
        for other in signals:
            loop.remove_signal_handler(other)
            signal.signal(other, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, asked, number)
