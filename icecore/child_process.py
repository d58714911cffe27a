"""Child processes of `icecore serve`: starts them, restarts them when they die, and stops them gracefully.

A child is `python -m MODULE`. Its standard input is a pipe from its parent with one line of JSON. The pipe closes when the parent ends,
and the child stops. No secret is on a command line.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from .server import stop_on_signals

RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 30.0
"""Each pause before a restart is twice as long as the one before."""
HEALTHY_SECONDS = 10.0
"""A child that lived this long is restarted without the pauses of those before it."""
KILL_MARGIN_SECONDS = 5.0
"""Beyond its grace a child that does not end is killed."""
_READY = b"ready\n"

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.child_process")


class ChildProcess:
    """The parent's side of one child, whichever process it is at the time."""

    def __init__(
        self,
        name: str,
        module: str,
        given: Mapping[str, Any],
        *,
        grace_seconds: float,
        descriptors: Sequence[int] = (),
        says_ready: bool = False,
    ) -> None:
        """name -- for the log. given -- what `handed_over` returns in the child. grace_seconds -- what a stop may take.

        descriptors -- open files that the child has under the same numbers. says_ready -- its standard output is read for `say_ready`;
        otherwise it has this process's.
        """
        self._name = name
        self._module = module
        self._line = orjson.dumps(given) + b"\n"
        self._grace_seconds = grace_seconds
        self._descriptors = descriptors
        self._says_ready = says_ready
        self.ready = asyncio.Event()
        """Once a child has said that it is."""

    async def keep_running(self, stop: asyncio.Event, *, died: Callable[[int], None] | None = None) -> None:
        """Returns once `stop` is set and the child has ended.

        died -- called with the exit code of a child that ended by itself; what it raises ends this instead of a restart.
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
            _log.error("process_restarting", process=self._name, exit_code=code, pause_seconds=pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stop.wait()

    async def _run_once(self, stop: asyncio.Event) -> int:
        process = await asyncio.create_subprocess_exec(
            # -P: no module is taken from the working directory.
            sys.executable, "-P", "-m", self._module,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE if self._says_ready else None, pass_fds=self._descriptors,
        )  # fmt: skip
        watching = asyncio.create_task(self._watch_ready(process))
        try:
            await self._hand_over(process)
            return await self._until_end(process, stop)
        finally:
            watching.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _hand_over(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        # A child may die before it has read a line: uvloop says so by RuntimeError at the write, the pipe by ConnectionError later.
        with contextlib.suppress(ConnectionError, RuntimeError):
            process.stdin.write(self._line)
            await process.stdin.drain()

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
            _log.error("process_killed", process=self._name)
            process.kill()
            return await process.wait()
        finally:
            stopping.cancel()
            ended.cancel()

    async def _watch_ready(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None and await process.stdout.readline() == _READY:
            self.ready.set()


def handed_over() -> Any:
    """In a child: what its parent gave it. To be called once, before `stop_with_parent`."""
    return orjson.loads(sys.stdin.buffer.readline())


def say_ready() -> None:
    """In a child: to its parent, once."""
    os.write(sys.stdout.fileno(), _READY)


def stop_with_parent(stop: asyncio.Event) -> None:
    """In a child: sets `stop` at SIGTERM, and when the parent has ended."""
    # Ctrl-C reaches the whole group; the parent passes it on as SIGTERM, in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_on_signals(stop, signal.SIGTERM)
    loop = asyncio.get_running_loop()

    def parent_ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    loop.add_reader(sys.stdin.fileno(), parent_ended)
