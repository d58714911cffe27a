"""Waits for the requests in flight before a server stops, including those whose bodies are still arriving."""

import asyncio

QUIET_SECONDS = 0.1
"""What a client had sent by the time it is told to go elsewhere, is read within this."""


class Draining:
    """Counts the requests of one server; aiohttp's own shutdown drops what arrives of a body after it began.

    ending -- `drain` has begun: answers close their connections, so that a client goes elsewhere with its next request.
    """

    def __init__(self) -> None:
        self.ending = False
        self._begun = self._in_flight = 0
        self._none_in_flight = asyncio.Event()
        self._none_in_flight.set()

    def begin(self) -> None:
        """A request came; `end` must follow whatever becomes of it."""
        self._begun += 1
        self._in_flight += 1
        self._none_in_flight.clear()

    def end(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._none_in_flight.set()

    async def drain(self) -> None:
        """Returns once no request is in flight and none has come for a while; the listening socket must be closed before.

        Without the while, what was sent on a connection and not yet read would be cut off with it.
        """
        self.ending = True
        begun = -1
        while begun < self._begun:
            begun = self._begun
            await asyncio.sleep(QUIET_SECONDS)
            await self._none_in_flight.wait()
