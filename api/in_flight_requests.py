"""Waits for the requests in flight before a server stops, including those whose bodies are still arriving."""

import asyncio

QUIET_SECONDS = 0.1
"""How long the server must be without new requests. What clients had sent before the shutdown is read within this time."""


class InFlightRequests:
    """Counts the requests in flight of one server. aiohttp's own shutdown would drop the rest of a body that is still arriving.

    draining -- `drain` has begun: responses close their connections, so that clients send their next request to another server.
    """

    def __init__(self) -> None:
        self.draining = False
        self._begun = self._in_flight = 0
        self._none_in_flight = asyncio.Event()
        self._none_in_flight.set()

    def begin(self) -> None:
        """Counts a request. `end` must be called for it, also if it fails."""
        self._begun += 1
        self._in_flight += 1
        self._none_in_flight.clear()

    def end(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._none_in_flight.set()

    async def drain(self) -> None:
        """Returns once no request is in flight and none has arrived for QUIET_SECONDS. The listening socket must be closed before.

        Without that interval, a request that was sent but not yet read would be lost with its connection.
        """
        self.draining = True
        begun = -1
        while begun < self._begun:
            begun = self._begun
            await asyncio.sleep(QUIET_SECONDS)
            await self._none_in_flight.wait()
