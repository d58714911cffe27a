"""A serving process of `icecore serve --workers N`: the supervisor starts it (icecore/child_process.py) with settings and sockets."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence

import structlog
import uvloop

from .child_process import handed_over, say_ready, stop_with_parent
from .logs import configure_logs_for, log_uncaught
from .server import run_server
from .settings import Settings, settings_from_json


def main() -> None:
    given = handed_over()
    settings = settings_from_json(given["settings"])
    configure_logs_for(settings)
    log_uncaught()
    structlog.contextvars.bind_contextvars(worker=given["number"])
    with contextlib.ExitStack() as opened:
        listening = [opened.enter_context(socket.socket(fileno=descriptor)) for descriptor in given["descriptors"]]
        uvloop.run(_serve(settings, listening, given["number"] - 1))


async def _serve(settings: Settings, listening: Sequence[socket.socket], worker: int) -> None:
    stop = asyncio.Event()
    stop_with_parent(stop)
    own = listening[worker % len(listening)]
    others = [opened for opened in listening if opened is not own]
    await run_server(settings, own, others=others, ready=say_ready, stop=stop, worker=worker)


if __name__ == "__main__":
    main()
