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
from .compose import open_catalog
from .listening import BACKLOG_CONNECTIONS_MAX, UnacceptedConnections, permit_descriptors
from .metrics import CatalogMetrics, ServeMetrics, shown_metrics
from .security.secrets import SecretStore
from .settings import Settings

CLOSE_SECONDS_MAX = 1.0
UNACCEPTED_CHECK_SECONDS = 0.125
"""Interval of the check for connections that wait for other workers."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.server")


OBJECTS_PER_COLLECTION = 20_000
"""Requests create no cycles, and scanning a cache of 10,000 tables is useless work. At Python's default of 700 it takes a third of a load.
"""
THREAD_SWITCH_SECONDS = 0.0005
"""Threads process large tables. The event loop needs the interpreter's lock several times per request and waits this long for it each time.
"""


async def run_server(
    settings: Settings,
    secrets: SecretStore,
    listening: socket.socket,
    *,
    others: Sequence[socket.socket] = (),
    ready: Callable[[], None],
    stop: asyncio.Event,
    metrics: ServeMetrics | None = None,
) -> None:
    """Serves on `listening` until `stop` is set, then waits up to shutdown_grace_seconds for the requests in flight.

    others -- sockets of other workers. Their connections are accepted here if their own worker is slow or has died.
    ready -- called once, when requests can be served.
    metrics -- shows the metrics of this process.
    """
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    return_large_blocks()
    permit_descriptors()
    async with open_catalog(settings, secrets) as catalog, shown_metrics(metrics, CatalogMetrics(catalog, serving=True).read):
        runner = build_runner(catalog.app)
        await runner.setup()
        site = web.SockSite(runner, listening, backlog=BACKLOG_CONNECTIONS_MAX)
        try:
            await site.start()
            # Objects that exist now are not scanned again.
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
            # Only requests that exceeded the grace period are left.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await runner.cleanup()


async def _take_over_until(stop: asyncio.Event, runner: EdgeRunner, others: Sequence[socket.socket]) -> None:
    """Accepts connections that other workers leave waiting, until `stop` is set."""
    unaccepted = UnacceptedConnections(others)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNACCEPTED_CHECK_SECONDS if others else None):
                await stop.wait()
                return
        for opened in unaccepted.check():
            await _accept_waiting(runner, opened)


async def _accept_waiting(runner: EdgeRunner, opened: socket.socket) -> None:
    """Accepts the connections that wait at a socket. Closing a listening socket resets them, and their requests are lost."""
    loop = asyncio.get_running_loop()
    assert runner.server is not None, "it is set up"
    # No connection waits, one was closed by its client, or the limit on descriptors is reached.
    with contextlib.suppress(OSError):
        while True:
            connection, _ = opened.accept()
            connection.setblocking(False)
            await loop.connect_accepted_socket(runner.server, connection)


async def _finish(site: web.SockSite, runner: EdgeRunner, grace_seconds: float) -> None:
    """Closes the socket first, so that new clients connect to another process."""
    await site.stop()
    try:
        async with asyncio.timeout(grace_seconds):
            await runner.drain()
            # Idle connections are closed at once, others after their current response.
            await runner.cleanup()
    except TimeoutError:
        _log.warning("requests_cut_off", shutdown_grace_seconds=grace_seconds)


def stop_on_signals(stop: asyncio.Event, *signals: signal.Signals) -> None:
    """The first signal requests a graceful stop. The second ends the process with the default action."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        _log.info("stopping", signal=number.name)
        stop.set()
        for other in signals:
            loop.remove_signal_handler(other)
            signal.signal(other, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, asked, number)
