"""Notifies waiting tasks of new events: one listening connection, shared by a process."""

import asyncio
from contextlib import suppress

import psycopg

from ..database.outage_log import OutageLog
from ..domain.client_errors import client_error_text
from .follow import STANDBY_POLL_SECONDS, connect_listener, connect_subscriber, wait_for_events
from .head import log_head

_RECONNECT_SECONDS_MIN = 0.1
_RECONNECT_SECONDS_MAX = 2.0
# A dead network connection may never report an error.
_SILENCE_SECONDS_MAX = 5.0


class LogListener:
    """The head of the log as known to this process. It starts to listen with the first wait.

    polls -- it reads the head every STANDBY_POLL_SECONDS instead, because a standby sends no notifications.
    """

    def __init__(self, dsn: str, *, polls: bool = False) -> None:
        self._dsn = dsn
        self._polls = polls
        self._head = 0
        self._changed = asyncio.Event()
        self._stopped = False
        self._listening: asyncio.Task[None] | None = None
        self._outage = OutageLog("icecore.listener", "listener_reconnecting", "listener_reconnected")

    async def after(self, position: int, seconds: float) -> bool:
        """Whether there is an event after `position`. Waits at most `seconds`, and ends when the listener is stopped."""
        if self._listening is None and not self._stopped:
            self._listening = asyncio.create_task(self._listen(), name="listener")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._head <= position and not self._stopped:
                    await self._changed.wait()
        return self._head > position

    def stop(self) -> None:
        """Ends all waits."""
        self._stopped = True
        self._wake()

    async def close(self) -> None:
        self.stop()
        if self._listening is not None:
            self._listening.cancel()
            with suppress(asyncio.CancelledError):
                await self._listening

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _listen(self) -> None:
        pause_seconds = _RECONNECT_SECONDS_MIN
        while True:
            try:
                async with await (connect_subscriber if self._polls else connect_listener)(self._dsn) as connection:
                    pause_seconds = _RECONNECT_SECONDS_MIN
                    while True:
                        async with asyncio.timeout(_SILENCE_SECONDS_MAX):
                            head = await log_head(connection)
                        self._outage.succeeded()
                        if head != self._head:  # less: the database was restored to an earlier point
                            self._head = head
                            self._wake()
                        if self._polls:
                            await asyncio.sleep(STANDBY_POLL_SECONDS)
                        else:
                            await wait_for_events(connection, None)
            # Any error of Postgres: while a database is being restored, the log's table may be missing.
            except (psycopg.Error, TimeoutError) as error:
                self._outage.failed(error=client_error_text(error))
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _RECONNECT_SECONDS_MAX)
