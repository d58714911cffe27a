"""The worker: publishing, asynchronous projections and jobs, in a process that serves no requests.

`icecore serve` runs one, `icecore worker` is one. Any number can run: one of them leads each task.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import uvloop

from .allocator import return_large_blocks
from .asynchronous_projections import run_projections
from .child_process import ChildProcess, handed_over, stop_with_parent
from .compose import open_catalog
from .logs import configure_logs_for, log_uncaught
from .settings import Settings, settings_from_json
from .sinks import STOP_SECONDS_MAX, publishers, run_publishers


@contextlib.asynccontextmanager
async def worker_beside(settings: Settings) -> AsyncIterator[None]:
    """A worker while the block runs, started again if it dies; none where the settings say so.

    Raises SettingsError at once for sinks that cannot be meant.
    """
    if not settings.worker_beside_server:
        yield
        return
    publishers(settings)
    stop = asyncio.Event()
    # Its standard output is ours: a sink may be just that.
    child = ChildProcess("worker", "icecore.worker", settings.to_json(), grace_seconds=STOP_SECONDS_MAX)
    keeping = asyncio.create_task(child.keep_running(stop), name="worker")
    try:
        yield
    finally:
        stop.set()
        await keeping


async def run_worker(settings: Settings, stop: asyncio.Event) -> None:
    """Until `stop` is set. Raises SettingsError for sinks that cannot be meant."""
    return_large_blocks()
    async with open_catalog(settings, jobs=True):
        await asyncio.gather(run_publishers(settings, stop), run_projections(settings.dsn, stop))


def main() -> None:
    settings = settings_from_json(handed_over())
    configure_logs_for(settings)
    log_uncaught()
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    stop_with_parent(stop)
    await run_worker(settings, stop)


if __name__ == "__main__":
    main()
