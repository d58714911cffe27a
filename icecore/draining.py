"""Lets the requests in flight finish before a server ends, those included whose bodies are still on their way."""

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


class Draining:
    """Counts the requests of one application; aiohttp's own shutdown drops what arrives of a body after it began.

    Once `drain` has begun, answers close their connections, so that a client goes elsewhere with its next request.
    """

    def __init__(self) -> None:
        self._in_flight = 0
        self._ending = False
        self._none_in_flight = asyncio.Event()
        self._none_in_flight.set()

    def middleware(self) -> Middleware:
        """To stand before every other middleware."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._in_flight += 1
            self._none_in_flight.clear()
            try:
                response = await handler(request)
                if self._ending and not response.prepared:
                    response.force_close()
                return response
            finally:
                self._in_flight -= 1
                if self._in_flight == 0:
                    self._none_in_flight.set()

        return count

    async def drain(self) -> None:
        """Returns once no request is in flight; the listening socket must be closed before."""
        self._ending = True
        await self._none_in_flight.wait()
