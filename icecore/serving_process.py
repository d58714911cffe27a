"""A serving process of `icecore serve --workers N`: the supervisor starts it (icecore/child_process.py) with settings and sockets."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence

import structlog
import uvloop

from .child_process import receive_parameters, report_ready, stop_with_parent
from .logs import configure_logs_for, log_uncaught
from .metrics import ServeMetrics
from .metrics_channel import metrics_of
from .security.secrets import SecretStore
from .server import run_server
from .settings import Settings, settings_from_json


def main() -> None:
    parameters = receive_parameters()
    settings = settings_from_json(parameters["settings"])
    configure_logs_for(settings, parameters["secret-keys"])
    log_uncaught()
    structlog.contextvars.bind_contextvars(process=f"serving-{parameters['number']}")
    with contextlib.ExitStack() as opened:
        listening = [opened.enter_context(socket.socket(fileno=descriptor)) for descriptor in parameters["descriptors"]]
        secrets = SecretStore.from_json(parameters["secret-keys"])
        uvloop.run(_serve(settings, secrets, listening, parameters["number"] - 1, metrics_of(parameters)))


async def _serve(
    settings: Settings, secrets: SecretStore, listening: Sequence[socket.socket], worker: int, metrics: ServeMetrics | None
) -> None:
    stop = asyncio.Event()
    stop_with_parent(stop)
    own = listening[worker % len(listening)]
    others = [opened for opened in listening if opened is not own]
    await run_server(settings, secrets, own, others=others, ready=report_ready, stop=stop, metrics=metrics)


if __name__ == "__main__":
    main()
