"""Temporary credentials of a store: fetched in a thread when they are first needed, and renewed before they expire."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from .separate_thread import in_separate_thread

_log = structlog.get_logger("icecore.storage")

FETCH_SECONDS_MAX = 4.0
"""How long a request waits for a fetch. The fetch then continues, and the next request waits for the same one."""
RETRY_SECONDS = 1.0
"""After a failed fetch, no other is started for so long."""


RENEWED_SECONDS_BEFORE = 600.0
"""Credentials are renewed so long before they expire, or after half their time."""


class NoCredentials(Exception):
    """There are no valid credentials. The message says why, in our own words."""


class Temporary(Protocol):
    """Credentials that expire. Both times are seconds since the epoch."""

    @property
    def renew_at(self) -> float: ...

    @property
    def expires_at(self) -> float: ...


@dataclass(frozen=True, slots=True, repr=False)
class TemporaryCredentials:
    """Credentials of AWS. `renew_at` and `expires_at` are seconds since the epoch."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    renew_at: float
    expires_at: float

    def __repr__(self) -> str:
        return f"TemporaryCredentials(<redacted>, renew_at={self.renew_at}, expires_at={self.expires_at})"


@dataclass(frozen=True, slots=True, repr=False)
class AccessToken:
    """A bearer token of Google Cloud or Azure. `renew_at` and `expires_at` are seconds since the epoch."""

    token: str
    renew_at: float
    expires_at: float

    def __repr__(self) -> str:
        return f"AccessToken(<redacted>, renew_at={self.renew_at}, expires_at={self.expires_at})"


def renewal_time(expires_at: float) -> float:
    """When credentials that were just fetched are renewed. Both times are seconds since the epoch."""
    return expires_at - min(RENEWED_SECONDS_BEFORE, (expires_at - time.time()) / 2)


_Credentials = TypeVar("_Credentials", bound=Temporary)


class RenewedCredentials(Generic[_Credentials]):
    """The credentials of one identity. Belongs to one event loop."""

    def __init__(self, cloud: str, fetch: Callable[[], _Credentials]) -> None:
        """cloud -- its name, for messages. fetch -- may block; raises NoCredentials with a reason. It is never called twice at once."""
        self._cloud = cloud
        self._fetch = fetch
        self._held: _Credentials | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._retry_at = 0.0

    def held(self) -> _Credentials:
        """What the last `ready` has found."""
        assert self._held is not None, "ready was awaited before"
        return self._held

    async def ready(self) -> None:
        """Returns if the credentials are valid. Raises NoCredentials, after FETCH_SECONDS_MAX at the latest.

        Credentials that are due for renewal are renewed in the background, and used until they expire.
        """
        if self._held is not None and time.time() < self._held.renew_at:
            return
        if (self._fetching is None or self._fetching.done()) and time.monotonic() >= self._retry_at:
            self._fetching = asyncio.create_task(self._renew(), name="renew-credentials")
        if self._is_valid():
            return
        if self._fetching is not None:
            try:
                async with asyncio.timeout(FETCH_SECONDS_MAX):
                    # The others who wait for it need it still.
                    await asyncio.shield(self._fetching)
            except TimeoutError:
                raise NoCredentials(f"the server's {self._cloud} identity was not found in time") from None
        if not self._is_valid():
            raise NoCredentials(self._failure or f"the credentials of the server's {self._cloud} identity have expired")

    def _is_valid(self) -> bool:
        return self._held is not None and time.time() < self._held.expires_at

    async def _renew(self) -> None:
        try:
            self._held = await in_separate_thread(self._fetch, "fetch-credentials")
        except Exception as error:
            # Of a kind that the library does not document: its text may contain what the server sent.
            reason = str(error) if isinstance(error, NoCredentials) else f"the {self._cloud} client failed: {type(error).__name__}"
            if reason != self._failure:
                _log.warning("system_identity_failed", cloud=self._cloud, reason=reason)
            self._failure, self._retry_at = reason, time.monotonic() + RETRY_SECONDS
        else:
            if self._failure is not None:
                _log.info("system_identity_recovered", cloud=self._cloud)
            self._failure = None
