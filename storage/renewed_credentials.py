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
ABANDONED_SECONDS = 30.0
"""A fetch that has not ended after so long is abandoned: its thread continues, its result is dropped, and the next request starts another.

The libraries' own timeouts end most fetches before. They do not bound a response that arrives byte by byte, or a file system that hangs.
"""
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
        """cloud -- its name, for messages. fetch -- may block; raises NoCredentials with a reason. It may be called again while a call that
        was abandoned runs.
        """
        self._cloud = cloud
        self._fetch = fetch
        self._current: _Credentials | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._retry_at = 0.0

    def current(self) -> _Credentials:
        """What the last `ready` has found."""
        assert self._current is not None, "ready was awaited before"
        return self._current

    async def ready(self) -> None:
        """Returns if the credentials are valid. Raises NoCredentials, after FETCH_SECONDS_MAX at the latest.

        Credentials that are due for renewal are renewed in the background, and used until they expire.
        """
        if self._current is not None and time.time() < self._current.renew_at:
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
                raise NoCredentials(self._late()) from None
        if not self._is_valid():
            raise NoCredentials(self._failure or f"the credentials of the server's {self._cloud} identity have expired")

    def _is_valid(self) -> bool:
        return self._current is not None and time.time() < self._current.expires_at

    def _late(self) -> str:
        return f"the server's {self._cloud} identity was not found in time"

    async def _renew(self) -> None:
        try:
            async with asyncio.timeout(ABANDONED_SECONDS):
                self._current = await in_separate_thread(self._fetch, "fetch-credentials")
        except Exception as error:
            if isinstance(error, TimeoutError):
                reason = self._late()
            elif isinstance(error, NoCredentials):
                reason = str(error)
            else:
                # Of a kind that the library does not document: its text may contain what the server sent.
                reason = f"the {self._cloud} client failed: {type(error).__name__}"
            if reason != self._failure:
                _log.warning("system_identity_failed", cloud=self._cloud, reason=reason)
            self._failure, self._retry_at = reason, time.monotonic() + RETRY_SECONDS
        else:
            if self._failure is not None:
                _log.info("system_identity_recovered", cloud=self._cloud)
            self._failure = None
