"""Serializes requests that clients send without waiting for answers, so that they do not delay other clients."""

import asyncio
from collections import deque


class PipelinedRequests:
    """Those of one server that wait behind an earlier request of their connection.

    Each takes several turns of the event loop. Were they all begun as soon as the answer before is sent, whoever waits for an answer that
    takes ten turns would wait for ten requests of every connection.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Waits until this connection may begin its next request: one connection may in each turn of the event loop."""
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
