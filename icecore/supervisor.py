"""The parent of `icecore serve --workers N`: keeps the serving processes running and stops them gracefully."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from .child_process import ChildProcess
from .exit_codes import CommandFailed, ExitCode
from .security.secrets import SecretStore
from .settings import Settings


def serving_processes(settings: Settings, secrets: SecretStore, listening: Sequence[socket.socket]) -> list[ChildProcess]:
    """The serving processes of the settings, not started yet; each has all sockets of `listening`."""
    descriptors = [opened.fileno() for opened in listening]
    return [_serving_process(number, settings, secrets, descriptors) for number in range(1, settings.workers + 1)]


async def supervise(
    processes: Sequence[ChildProcess], listening: Sequence[socket.socket], ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Keeps `processes` running on `listening` until `stop` is set; each has all sockets, so that a restart loses no connection.

    Raises CommandFailed if one dies before all of them have been ready once. It would die again after a restart.
    """
    all_were_ready = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            for number, process in enumerate(processes, start=1):
                group.create_task(process.keep_running(stop, died=_refused_before(all_were_ready, number)))
            group.create_task(_announce(processes, all_were_ready, stop, ready))
            await stop.wait()
            for opened in listening:
                opened.close()
    except* CommandFailed as failed:
        raise failed.exceptions[0] from None


def _serving_process(number: int, settings: Settings, secrets: SecretStore, descriptors: Sequence[int]) -> ChildProcess:
    return ChildProcess(
        f"serving-{number}",
        "icecore.serving_process",
        {"number": number, "descriptors": descriptors, "settings": settings.to_json(), "secret-keys": secrets.to_json()},
        grace_seconds=settings.shutdown_grace_seconds,
        descriptors=descriptors,
        reports_ready=True,
        reports_metrics=settings.metrics_port is not None,
    )


def _refused_before(all_were_ready: asyncio.Event, number: int) -> Callable[[int], None]:
    def died(code: int) -> None:
        if not all_were_ready.is_set():
            raise CommandFailed(ExitCode.CRASHED, f"Serving process {number} ended with code {code} before it was ready; see the log above")

    return died


async def _announce(
    processes: Sequence[ChildProcess], all_were_ready: asyncio.Event, stop: asyncio.Event, ready: Callable[[], None]
) -> None:
    """Calls `ready` once every process is ready, or never if `stop` is set first."""
    stopping = asyncio.ensure_future(stop.wait())
    for process in processes:
        waiting = asyncio.ensure_future(process.ready.wait())
        await asyncio.wait({stopping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    if stopping.done():
        return
    stopping.cancel()
    all_were_ready.set()
    ready()
