"""Beside `icecore serve`: starts the embedded Postgres again when it has died, and gives up after repeated failure."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import structlog

from icecore.embedded_postgres import server_is_gone, start_again
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.postgres_account import EmbeddedPostgresError
from icecore.settings import Settings

CHECK_SECONDS = 0.5
RESTARTS_MAX = 6
"""In a row: a server that died before it had run for HEALTHY_SECONDS, or did not start at all."""
RESTART_SECONDS_MIN = 0.2
"""Before the second restart; each further pause is twice as long."""
HEALTHY_SECONDS = 60.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.postgres_watch")


@contextlib.asynccontextmanager
async def watched_postgres(settings: Settings, stop: asyncio.Event) -> AsyncIterator[None]:
    """While the block runs; when it gives up, it sets `stop`, and the block ends with CommandFailed."""
    watching = asyncio.create_task(_watch(settings, stop), name="postgres-watch")
    try:
        yield
    finally:
        stop.set()
        await watching


async def _watch(settings: Settings, stop: asyncio.Event) -> None:
    failed, started = 0, time.monotonic()
    while not await _stopped_within(stop, CHECK_SECONDS):
        if not await asyncio.to_thread(server_is_gone, settings.data_dir):
            continue
        if time.monotonic() - started > HEALTHY_SECONDS:
            failed = 0
        while not stop.is_set():
            _log.error("the embedded Postgres has died; starting it again", restarts_in_a_row=failed + 1)
            reason = await _start_again(settings)
            failed, started = failed + 1, time.monotonic()
            if failed >= RESTARTS_MAX:
                stop.set()
                raise CommandFailed(ExitCode.DATABASE, f"The embedded Postgres died, and {failed} restarts in a row did not help{reason}")
            if not reason or await _stopped_within(stop, RESTART_SECONDS_MIN * 2 ** (failed - 1)):
                break


async def _start_again(settings: Settings) -> str:
    """Why it did not start; empty where it did."""
    try:
        await asyncio.to_thread(start_again, settings.data_dir, state_directory=settings.embedded_state_dir)
    except EmbeddedPostgresError as error:
        _log.error("the embedded Postgres did not start", error=str(error))
        return f": {error}"
    return ""


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
