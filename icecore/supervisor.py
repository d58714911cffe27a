"""The parent of `icecore serve --workers N`: keeps the serving processes running and stops them gracefully."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from .child_process import ChildProcess
from .exit_codes import CommandFailed, ExitCode
from .settings import Settings


async def supervise(settings: Settings, listening: Sequence[socket.socket], ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Keeps settings.workers workers on `listening` until `stop` is set; each has all sockets, so no connection is lost by a restart.

    Raises CommandFailed if a worker dies before all of them have once been ready: what stops the first stops the hundredth.
    """
    descriptors = [opened.fileno() for opened in listening]
    workers = [_worker(number, settings, descriptors) for number in range(1, settings.workers + 1)]
    all_were_ready = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(workers, start=1):
                group.create_task(worker.keep_running(stop, died=_refused_before(all_were_ready, number)))
            group.create_task(_announce(workers, all_were_ready, stop, ready))
            await stop.wait()
            for opened in listening:
                opened.close()
    except* CommandFailed as failed:
        raise failed.exceptions[0] from None


def _worker(number: int, settings: Settings, descriptors: Sequence[int]) -> ChildProcess:
    return ChildProcess(
        f"worker {number}",
        "icecore.serving_process",
        {"number": number, "descriptors": descriptors, "settings": settings.to_json()},
        grace_seconds=settings.shutdown_grace_seconds,
        descriptors=descriptors,
        says_ready=True,
    )


def _refused_before(all_were_ready: asyncio.Event, number: int) -> Callable[[int], None]:
    def died(code: int) -> None:
        if not all_were_ready.is_set():
            raise CommandFailed(ExitCode.CRASHED, f"Worker {number} ended with code {code} before it served; see the log above")

    return died


async def _announce(workers: Sequence[ChildProcess], all_were_ready: asyncio.Event, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Calls `ready` once every worker answers; not at all if `stop` comes first."""
    stopping = asyncio.ensure_future(stop.wait())
    for worker in workers:
        waiting = asyncio.ensure_future(worker.ready.wait())
        await asyncio.wait({stopping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    if stopping.done():
        return
    stopping.cancel()
    all_were_ready.set()
    ready()
