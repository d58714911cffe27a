"""The command `icecore wait-for-db`: waits until the database has the schema of this version."""

import asyncio
import math
import time

import uvloop
from rich.console import Console

from .exit_codes import CommandFailed, ExitCode
from .log_database import require_schema
from .settings import Settings
from .waiting_notice import noticed

_PAUSE_SECONDS = 0.5


def wait_for_database(settings: Settings, console: Console, timeout_seconds: float) -> ExitCode:
    """Returns once the database is reachable and migrated. Raises CommandFailed with the last reason if it takes longer."""
    if not 0 <= timeout_seconds < math.inf:
        raise CommandFailed(ExitCode.USAGE, "--timeout-seconds must be a number of seconds, at least 0")
    if settings.database_url is None:
        raise CommandFailed(ExitCode.USAGE, "ICECORE_DATABASE_URL is not set: the embedded Postgres needs no waiting")
    uvloop.run(_wait(settings, timeout_seconds))
    console.out("the database is ready", highlight=False)
    return ExitCode.OK


async def _wait(settings: Settings, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    failure = CommandFailed(ExitCode.DATABASE, f"The database did not respond within {timeout_seconds:g} seconds")
    reason = "the database"
    with noticed(lambda: reason):
        while True:
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                    await require_schema(settings)
                return
            except CommandFailed as failed:
                failure, reason = failed, f"the database: {failed}"
            except TimeoutError:
                raise failure from None
            if time.monotonic() + _PAUSE_SECONDS > deadline:
                raise failure
            await asyncio.sleep(_PAUSE_SECONDS)
