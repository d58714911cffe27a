"""Restarts the embedded Postgres if it dies while `icecore serve` runs, and gives up after repeated failures."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from .cluster_directories import STATE_DIRECTORY
from .errors import EmbeddedPostgresError
from .server import server_is_gone, start_again

CHECK_SECONDS = 0.5
RESTARTS_MAX = 6
"""Consecutive failures: the server did not start, or died before it had run for HEALTHY_SECONDS."""
RESTART_SECONDS_MIN = 0.2
"""The pause before the second restart. Each further pause is twice as long."""
HEALTHY_SECONDS = 60.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.embedded_postgres")


@contextlib.asynccontextmanager
async def restarted_on_failure(
    data_directory: Path, stop: asyncio.Event, *, state_directory: Path = STATE_DIRECTORY
) -> AsyncIterator[None]:
    """Watches the server while the block runs, inside `embedded_postgres`. If it gives up or fails, it sets `stop`, and the block ends with
    EmbeddedPostgresError.
    """
    watching = asyncio.create_task(_watch(data_directory, state_directory, stop), name="postgres-watch")
    # Any failure: the process must not serve without the watch.
    watching.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        stop.set()
        await watching


async def _watch(data_directory: Path, state_directory: Path, stop: asyncio.Event) -> None:
    failed, started = 0, time.monotonic()
    while not await _stopped_within(stop, CHECK_SECONDS):
        try:
            gone = await asyncio.to_thread(server_is_gone, data_directory)
        except OSError:
            # Unknown, as while clients have taken all the files that this process may open. The next look tells.
            continue
        if not gone:
            continue
        if time.monotonic() - started > HEALTHY_SECONDS:
            failed = 0
        while not stop.is_set():
            _log.error("embedded_postgres_restarting", restarts_in_a_row=failed + 1)
            reason = await _start_again(data_directory, state_directory)
            failed, started = failed + 1, time.monotonic()
            if failed >= RESTARTS_MAX:
                raise EmbeddedPostgresError(f"The embedded Postgres died, and {failed} restarts failed{reason}")
            if not reason or await _stopped_within(stop, RESTART_SECONDS_MIN * 2 ** (failed - 1)):
                break


async def _start_again(data_directory: Path, state_directory: Path) -> str:
    """Starts the server again and returns the error message; empty if it has started."""
    try:
        await asyncio.to_thread(start_again, data_directory, state_directory=state_directory)
    except EmbeddedPostgresError as error:
        _log.error("embedded_postgres_start_failed", error=str(error))
        return f": {error}"
    return ""


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
