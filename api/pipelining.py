"""Delays requests that a client sent without waiting for the previous response, so that they do not delay other clients."""

import asyncio
from collections import deque


class PipelinedRequests:
    """The requests of one server that wait behind an earlier request of their connection.

    A request takes several turns of the event loop. If each began right after the previous one, another client's request of ten turns would
    wait for ten requests of every pipelining connection.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Waits until this connection may begin its next request. One connection may begin per turn of the event loop."""
        loop = asyncio.get_running_loop()
        admitted: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._admit)
        self._waiting.append(admitted)
        await admitted

    def _admit(self) -> None:
        first = self._waiting.popleft()
        if not first.done():
            first.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._admit)
