"""The process that tells the sinks beside a server: what a broker does, or fails to do, costs a commit neither time nor turn.

Like a worker it is handed the settings through a pipe, which also tells it when its parent has ended, whichever way.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator

import orjson
import structlog
import uvloop

from icecore.logs import configure_logs_for, log_uncaught
from icecore.server import stop_on_signals
from icecore.settings import Settings, settings_from_json
from icecore.sinks import STOP_SECONDS_MAX, publishers, run_publishers

RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 30.0
HEALTHY_SECONDS = 60.0
KILL_MARGIN_SECONDS = 2.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.publishing")


@contextlib.asynccontextmanager
async def publishing(settings: Settings) -> AsyncIterator[None]:
    """A publishing process while the block runs, started again if it dies; none where no sink is named.

    Raises SettingsError at once for sinks that cannot be meant.
    """
    if not settings.sinks:
        yield
        return
    publishers(settings)
    stop = asyncio.Event()
    keeping = asyncio.create_task(_keep_running(settings, stop), name="publishing")
    try:
        yield
    finally:
        stop.set()
        await keeping


async def _keep_running(settings: Settings, stop: asyncio.Event) -> None:
    pause = RESTART_SECONDS_MIN
    while not stop.is_set():
        started = time.monotonic()
        code = await _run_once(settings, stop)
        if stop.is_set():
            return
        pause = RESTART_SECONDS_MIN if time.monotonic() - started > HEALTHY_SECONDS else min(pause * 2, RESTART_SECONDS_MAX)
        _log.error("publishing process died; starting another", exit_code=code, pause_seconds=pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()


async def _run_once(settings: Settings, stop: asyncio.Event) -> int:
    """Its standard output is ours: a sink may be just that."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-m", "icecore.publishing", stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    ended, stopping = asyncio.ensure_future(process.wait()), asyncio.ensure_future(stop.wait())
    try:
        process.stdin.write(orjson.dumps(settings.to_json()) + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS_MAX + KILL_MARGIN_SECONDS):
            return await ended
    except TimeoutError:
        process.kill()
        return await process.wait()
    finally:
        stopping.cancel()
        ended.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()


def main() -> None:
    settings = settings_from_json(orjson.loads(sys.stdin.buffer.readline()))
    configure_logs_for(settings)
    log_uncaught()
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    # Ctrl-C reaches the whole group; the parent passes it on as SIGTERM, in its own order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_on_signals(stop, signal.SIGTERM)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _parent_ended, stop)
    await run_publishers(settings, stop)


def _parent_ended(stop: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    stop.set()


if __name__ == "__main__":
    main()
