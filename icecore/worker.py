"""A worker of `icecore serve --workers N`: the supervisor starts it, hands it the settings and the sockets, and is watched by it.

Its standard input is a pipe from the supervisor: one line of JSON, then nothing until the supervisor ends, whichever way it ends.
So no worker outlives its supervisor, and no secret stands on a command line. Its standard output says `ready`, once.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence

import orjson
import structlog
import uvloop

from icecore.logs import configure_logs_for, log_uncaught
from icecore.server import run_server, stop_on_signals
from icecore.settings import Settings, settings_from_json
from storage.ambient_credentials import forget_ambient_credentials

READY = b"ready\n"


def job(number: int, listening: Sequence[socket.socket], settings: Settings) -> bytes:
    """The line a worker is started with."""
    descriptors = [opened.fileno() for opened in listening]
    return orjson.dumps({"number": number, "descriptors": descriptors, "settings": settings.to_json()}) + b"\n"


def main() -> None:
    given = orjson.loads(sys.stdin.buffer.readline())
    settings = settings_from_json(given["settings"])
    configure_logs_for(settings)
    log_uncaught()
    forget_ambient_credentials()
    structlog.contextvars.bind_contextvars(worker=given["number"])
    with contextlib.ExitStack() as opened:
        listening = [opened.enter_context(socket.socket(fileno=descriptor)) for descriptor in given["descriptors"]]
        uvloop.run(_serve(settings, listening, given["number"] - 1))


async def _serve(settings: Settings, listening: Sequence[socket.socket], worker: int) -> None:
    stop = asyncio.Event()
    # Ctrl-C reaches the whole group; the supervisor passes it on as SIGTERM, in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_on_signals(stop, signal.SIGTERM)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _supervisor_ended, stop)
    own = listening[worker % len(listening)]
    others = [opened for opened in listening if opened is not own]
    await run_server(settings, own, others=others, ready=_say_ready, stop=stop, worker=worker)


def _supervisor_ended(stop: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    stop.set()


def _say_ready() -> None:
    os.write(sys.stdout.fileno(), READY)


if __name__ == "__main__":
    main()
