"""Connections whose clients make progress, but too little."""

import asyncio

import pytest

from api.connections import Awaited, Connections

STALL_SECONDS = 0.2
RATE_MIN = 1_000


class Reader:
    """The server's end of a connection whose client takes so many bytes of its answer at every look."""

    def __init__(self, bytes_each: int) -> None:
        self._bytes_each, self.taken, self.aborted, self.idle_since = bytes_each, 0, False, 0.0

    def awaited(self) -> Awaited:
        self.taken += self._bytes_each
        return "answer", self.taken, 1_000_000 - self.taken

    def answer_bytes_taken(self) -> int:
        return self.taken

    def cut(self, awaited: str) -> None:
        raise AssertionError("it makes progress")

    def abort(self) -> None:
        self.aborted = True


@pytest.mark.parametrize(("bytes_each", "aborted"), [(1, True), (1_000, False)])
async def test_an_answer_must_be_taken_at_a_rate(bytes_each: int, aborted: bool) -> None:
    """A byte now and then is progress, and too little."""
    connections, reader = Connections(10, STALL_SECONDS, RATE_MIN), Reader(bytes_each)
    connections.opened(reader)
    loop = asyncio.get_running_loop()
    end = loop.time() + 3 * STALL_SECONDS
    while loop.time() < end:
        connections.look(STALL_SECONDS)
        await asyncio.sleep(STALL_SECONDS / 20)
    assert reader.aborted == aborted
