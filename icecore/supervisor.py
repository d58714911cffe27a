"""The parent of `icecore serve --workers N`: starts the workers, starts one again that died, and stops them all gracefully."""

import asyncio
import contextlib
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence

import structlog

from icecore.exit_codes import CommandFailed, ExitCode
from icecore.settings import Settings
from icecore.worker import READY, job

RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 30.0
HEALTHY_SECONDS = 10.0
"""A worker that lived this long is restarted without the pauses of those before it."""
KILL_MARGIN_SECONDS = 5.0
"""Beyond its grace a worker that does not end is killed."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.supervisor")


async def supervise(settings: Settings, listening: Sequence[socket.socket], ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Keeps settings.workers workers on `listening` until `stop` is set; each has all sockets, so no connection is lost by a restart.

    Raises CommandFailed if a worker dies before all of them have once been ready: what stops the first stops the hundredth.
    """
    workers = [_Worker(number, settings, listening, stop) for number in range(1, settings.workers + 1)]
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.keep_running())
            group.create_task(_announce(workers, stop, ready))
            await stop.wait()
            for opened in listening:
                opened.close()
    except* CommandFailed as failed:
        raise failed.exceptions[0] from None


async def _announce(workers: "list[_Worker]", stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Calls `ready` once every worker answers; not at all if `stop` comes first."""
    stopping = asyncio.ensure_future(stop.wait())
    for worker in workers:
        waiting = asyncio.ensure_future(worker.ready.wait())
        await asyncio.wait({stopping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    if stopping.done():
        return
    stopping.cancel()
    for worker in workers:
        worker.crew_was_ready = True
    ready()


class _Worker:
    """One place in the crew, whoever fills it at the time."""

    def __init__(self, number: int, settings: Settings, listening: Sequence[socket.socket], stop: asyncio.Event) -> None:
        self._number = number
        self._settings = settings
        self._listening = listening
        self._stop = stop
        self.ready = asyncio.Event()
        self.crew_was_ready = False

    async def keep_running(self) -> None:
        """Returns once `stop` is set and the worker has ended."""
        pause = RESTART_SECONDS_MIN
        while not self._stop.is_set():
            started = time.monotonic()
            code = await self._run_once()
            if self._stop.is_set():
                return
            if not self.crew_was_ready:
                raise CommandFailed(ExitCode.CRASHED, f"Worker {self._number} ended with code {code} before it served; see the log above")
            pause = RESTART_SECONDS_MIN if time.monotonic() - started > HEALTHY_SECONDS else min(pause * 2, RESTART_SECONDS_MAX)
            _log.error("worker died; starting another", worker=self._number, exit_code=code, pause_seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stop.wait()

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "icecore.worker",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=[opened.fileno() for opened in self._listening],
        )  # fmt: skip
        watching = asyncio.create_task(self._watch_ready(process))
        try:
            await self._hand_over(process)
            return await self._until_end(process)
        finally:
            watching.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _hand_over(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        # A worker may die before it has read a line: uvloop says so by RuntimeError at the write, the pipe by ConnectionError later.
        with contextlib.suppress(ConnectionError, RuntimeError):
            process.stdin.write(job(self._number, self._listening, self._settings))
            await process.stdin.drain()

    async def _until_end(self, process: asyncio.subprocess.Process) -> int:
        ended = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(self._settings.shutdown_grace_seconds + KILL_MARGIN_SECONDS):
                return await ended
        except TimeoutError:
            _log.error("worker killed: it did not stop", worker=self._number)
            process.kill()
            return await process.wait()
        finally:
            stopping.cancel()
            ended.cancel()

    async def _watch_ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        if await process.stdout.readline() == READY:
            self.ready.set()
