"""Starts publishing processes quickly: each is a fork of a process that has imported everything, because tests kill many.

Standard input: a line of JSON (settings, log file) for each process. Standard output: its process id.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

import confluent_kafka  # noqa: F401 -- to have it imported
import nats  # noqa: F401
import orjson
import uvloop

import icecore.publishers.jetstream
import icecore.publishers.kafka
import icecore.publishers.webhook  # noqa: F401
from icecore.logs import configure_logs_for
from icecore.server import stop_on_signals
from icecore.settings import Settings, settings_from_json
from icecore.sinks import run_publishers


async def _work(settings: Settings) -> None:
    import asyncio

    stop = asyncio.Event()
    stop_on_signals(stop, signal.SIGTERM)
    await run_publishers(settings, stop)


def _child(given: dict[str, str]) -> None:
    os.setsid()
    output = os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    settings = settings_from_json(orjson.loads(Path(given["settings"]).read_bytes()))
    configure_logs_for(settings)
    uvloop.run(_work(settings))


def main() -> None:
    """Runs until standard input ends, then kills its children.

    Ended children are reaped only then, so that their process ids are not reused and no signal reaches another process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: list[int] = []
    for line in sys.stdin.buffer:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                _child(orjson.loads(line))
            os._exit(0)
        children.append(pid)
        os.write(1, f"{pid}\n".encode())
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
