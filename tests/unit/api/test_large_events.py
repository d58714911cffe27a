"""Memory for the large events of streams: every stream gets its turn."""

import asyncio

import pytest

from icecore.api.byte_budget import BudgetExhausted
from icecore.api.history.event_stream import _Batches
from icecore.api.history.large_events import LargeEvents
from icecore.publishers.pull import EventBatch, RenderedEvent


async def test_waiting_streams_get_memory_first() -> None:
    """In the order of their requests. Each is woken at its turn, and later requests wait behind."""
    room = LargeEvents(100)
    reserved_bytes = room.reserve_content(b"x" * 100)
    for who in ("first", "second"):
        room.enter(who)
    turns = {who: asyncio.create_task(room.turn(who, 30.0)) for who in ("first", "second")}
    await asyncio.sleep(0)
    reserved_bytes.release()
    async with asyncio.timeout(5):
        await turns["first"]
    assert not turns["second"].done()
    for who in ("second", "newcomer"):
        with pytest.raises(BudgetExhausted):
            room.check_turn(who)
    room.check_turn("first")
    room.leave("first")
    async with asyncio.timeout(5):
        await turns["second"]
    room.leave("second")
    assert not room.is_waited_for
    room.check_turn("newcomer")


async def test_a_woken_stream_without_enough_memory_waits_again() -> None:
    """It makes no further request until more memory is released."""
    room = LargeEvents(100)
    reserved_bytes = room.reserve_contents([b"x" * 60, b"y" * 40])
    room.enter("only")
    reserved_bytes[0].release()
    await room.turn("only", 30.0)
    room.enter("only")
    turn = asyncio.create_task(room.turn("only", 30.0))
    await asyncio.sleep(0.05)
    assert not turn.done()
    reserved_bytes[1].release()
    async with asyncio.timeout(5):
        await turn


async def test_a_turn_that_does_not_come_is_not_waited_for_longer_than_said() -> None:
    room = LargeEvents(100)
    room.enter("only")
    await room.turn("only", 0.01)
    assert room.is_waited_for


class _Log:
    """An unlimited number of large events, each a separate object."""

    async def batch(self, after: int, *, to: int | None = None) -> EventBatch:
        return EventBatch([RenderedEvent(after + 1, "large", bytes(100_000))], after + 1, False, None)


async def test_a_closed_stream_delays_no_other() -> None:
    """Streams that hold memory or wait for it delay others. One that ends releases both, and the next is woken at once."""
    room = LargeEvents(150_000)
    first, second, third = (_Batches(_Log(), room) for _ in range(3))  # type: ignore[arg-type]
    assert await first.read(0, None) is not None
    assert not first.keep_others_waiting
    for batches in (second, third):
        assert await batches.read(0, None) is None
    assert all(batches.keep_others_waiting for batches in (first, second, third))
    waiting = asyncio.create_task(third.pause(30.0))
    await asyncio.sleep(0)
    first.close()
    assert await third.read(0, None) is None
    second.close()
    async with asyncio.timeout(5):
        await waiting
    assert await third.read(0, None) is not None
    assert not third.keep_others_waiting
    third.close()
    assert (0, False) == (room.reserved_bytes, room.is_waited_for)
