"""One serving process: the catalog behind a listening socket until it is told to stop."""

import asyncio
import signal
import socket
from collections.abc import Callable

import structlog
from aiohttp import web

from api.server import build_runner
from icecore.compose import open_catalog
from icecore.listening import BACKLOG_CONNECTIONS_MAX
from icecore.settings import Settings

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.server")


async def run_server(settings: Settings, listening: socket.socket, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Serves on `listening` until `stop` is set, then lets the requests in flight finish within shutdown_grace_seconds.

    ready -- called once, when requests are answered.
    """
    async with open_catalog(settings, jobs=True) as catalog:
        runner = build_runner(catalog.app)
        await runner.setup()
        try:
            await web.SockSite(runner, listening, backlog=BACKLOG_CONNECTIONS_MAX).start()
            ready()
            await stop.wait()
        finally:
            await _finish(runner, settings.shutdown_grace_seconds)


async def _finish(runner: web.AppRunner, grace_seconds: float) -> None:
    """Closes the socket first: what is refused from now on, a client may send elsewhere."""
    try:
        async with asyncio.timeout(grace_seconds):
            await runner.cleanup()
    except TimeoutError:
        _log.warning("requests cut off: they took longer than the grace", shutdown_grace_seconds=grace_seconds)


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
