"""Child processes of `icecore serve`: starts them, restarts them when they die, and stops them gracefully.

A child is `python -m MODULE`. Its standard input is a pipe from its parent with one line of JSON. The pipe closes when the parent ends,
and the child stops. No secret is on a command line.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from .metrics_channel import MetricsChannel
from .server import stop_on_signals

RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 30.0
"""Each pause before a restart is twice as long as the previous one."""
HEALTHY_SECONDS = 10.0
"""After a run of this length, the next restart has no pause."""
KILL_MARGIN_SECONDS = 5.0
"""A child that does not end this long after its grace is killed."""
_READY = b"ready\n"

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.child_process")


class ChildProcess:
    """The parent's side of a child. The object stays the same when the child is restarted."""

    def __init__(
        self,
        name: str,
        module: str,
        parameters: Mapping[str, Any],
        *,
        grace_seconds: float,
        descriptors: Sequence[int] = (),
        reports_ready: bool = False,
        reports_metrics: bool = False,
    ) -> None:
        """name -- for the log and the metrics.
        parameters -- what `receive_parameters` returns in the child.
        grace_seconds -- time for a graceful stop.
        descriptors -- open files that the child inherits under the same numbers.
        reports_ready -- the child's standard output is read for `report_ready`; otherwise it is this process's.
        reports_metrics -- `metrics` is open while a child runs, and the parameters contain a "metrics-descriptor" for
            `responding_to_parent`.
        """
        self.name = name
        self._module = module
        self._parameters = parameters
        self._grace_seconds = grace_seconds
        self._descriptors = descriptors
        self._reports_ready = reports_ready
        self._reports_metrics = reports_metrics
        self.metrics: MetricsChannel | None = None
        """To the running child; None if none runs, or if it does not report metrics."""
        self.ready = asyncio.Event()
        """Set once a child reports that it is ready."""

    async def keep_running(self, stop: asyncio.Event, *, died: Callable[[int], None] | None = None) -> None:
        """Returns once `stop` is set and the child has ended.

        died -- called with the exit code of a child that ended without a stop. An error it raises ends this call instead of a restart.
        """
        pause = RESTART_SECONDS_MIN
        while not stop.is_set():
            started = time.monotonic()
            code = await self._run_once(stop)
            if stop.is_set():
                return
            if died is not None:
                died(code)
            pause = RESTART_SECONDS_MIN if time.monotonic() - started > HEALTHY_SECONDS else min(pause * 2, RESTART_SECONDS_MAX)
            _log.error("process_restarting", process=self.name, exit_code=code, pause_seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()

    async def _run_once(self, stop: asyncio.Event) -> int:
        if not self._reports_metrics:
            return await self._run(await self._start(self._descriptors), self._parameters, stop)
        ours, theirs = socket.socketpair()
        self.metrics = await MetricsChannel.open(ours)
        try:
            descriptor = theirs.fileno()
            with theirs:
                process = await self._start([*self._descriptors, descriptor])
            return await self._run(process, {**self._parameters, "metrics-descriptor": descriptor}, stop)
        finally:
            self.metrics.close()
            self.metrics = None

    async def _start(self, descriptors: Sequence[int]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            # -P: modules are not imported from the working directory.
            sys.executable, "-P", "-m", self._module,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE if self._reports_ready else None, pass_fds=descriptors,
        )  # fmt: skip

    async def _run(self, process: asyncio.subprocess.Process, parameters: Mapping[str, Any], stop: asyncio.Event) -> int:
        watching = asyncio.create_task(self._watch_ready(process))
        try:
            await _send_parameters(process, parameters)
            return await self._until_end(process, stop)
        finally:
            watching.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _until_end(self, process: asyncio.subprocess.Process, stop: asyncio.Event) -> int:
        ended = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return ended.result()
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(self._grace_seconds + KILL_MARGIN_SECONDS):
                return await ended
        except TimeoutError:
            _log.error("process_killed", process=self.name)
            process.kill()
            return await process.wait()
        finally:
            stopping.cancel()
            ended.cancel()

    async def _watch_ready(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None and await process.stdout.readline() == _READY:
            self.ready.set()


async def _send_parameters(process: asyncio.subprocess.Process, parameters: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    # The child may die before it has read the line. uvloop then raises RuntimeError from the write, the pipe later ConnectionError.
    with contextlib.suppress(ConnectionError, RuntimeError):
        process.stdin.write(orjson.dumps(parameters) + b"\n")
        await process.stdin.drain()


def receive_parameters() -> Any:
    """In a child: the value that the parent passed. Call it once, before `stop_with_parent`."""
    return orjson.loads(sys.stdin.buffer.readline())


def report_ready() -> None:
    """In a child: reports to the parent that it is ready. Call it once."""
    os.write(sys.stdout.fileno(), _READY)


def stop_with_parent(stop: asyncio.Event) -> None:
    """In a child: sets `stop` at SIGTERM and when the parent ends."""
    # Ctrl-C and the end of a terminal are sent to the whole process group. The parent sends SIGTERM to its children in its own order.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stop_on_signals(stop, signal.SIGTERM)
    loop = asyncio.get_running_loop()

    def parent_ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    loop.add_reader(sys.stdin.fileno(), parent_ended)
