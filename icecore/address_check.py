"""Checks for `icecore doctor` whether a server could listen at the address of the settings, or already does."""

from contextlib import closing
from uuid import UUID

import aiohttp

from .exit_codes import CommandFailed
from .listening import bound, local_url
from .settings import Settings

RESPONSE_SECONDS_MAX = 5.0


def address_failure(settings: Settings) -> CommandFailed | None:
    """The error that a server gets when it opens its ports. None if it gets none. The ports are not listened at."""
    try:
        with closing(bound(settings.host, settings.port)):
            pass
        if settings.metrics_port is not None:
            with closing(bound(settings.host, settings.metrics_port, "ICECORE_METRICS_PORT")):
                pass
    except CommandFailed as failure:
        return failure
    return None


async def listening_server_id(settings: Settings) -> UUID | None:
    """The id of the server that listens at the address of the settings. None if it has none or does not respond."""
    url = f"{local_url(settings.host, settings.port)}/management/v1/info"
    timeout = aiohttp.ClientTimeout(total=RESPONSE_SECONDS_MAX)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return UUID((await response.json(content_type=None))["server-id"])
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError, AttributeError):
        # Another program listens there, and may respond with anything.
        return None
