"""The process that publishes to the sinks beside a server: what a broker does, or fails to do, costs a commit neither time nor turn."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import uvloop

from icecore.child_process import ChildProcess, handed_over, stop_with_parent
from icecore.logs import configure_logs_for, log_uncaught
from icecore.settings import Settings, settings_from_json
from icecore.sinks import STOP_SECONDS_MAX, publishers, run_publishers


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
    # Its standard output is ours: a sink may be just that.
    child = ChildProcess("publishing", "icecore.publishing", settings.to_json(), grace_seconds=STOP_SECONDS_MAX)
    keeping = asyncio.create_task(child.keep_running(stop), name="publishing")
    try:
        yield
    finally:
        stop.set()
        await keeping


def main() -> None:
    settings = settings_from_json(handed_over())
    configure_logs_for(settings)
    log_uncaught()
    uvloop.run(_run(settings))


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    stop_with_parent(stop)
    await run_publishers(settings, stop)


if __name__ == "__main__":
    main()
