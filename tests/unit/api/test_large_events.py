"""Room for the large events that streams write: nobody waits for ever."""

import asyncio

import pytest

from icecore.api.byte_budget import BudgetUsedUp
from icecore.api.history.event_stream import _Batches
from icecore.api.history.large_events import LargeEvents
from icecore.publishers.pull import PulledEvent, PulledEvents


async def test_who_waits_for_room_comes_before_others() -> None:
    """In the order they asked; each is woken when it is its turn, and who comes meanwhile stands behind."""
    room = LargeEvents(100)
    held = room.hold(b"x" * 100)
    for who in ("first", "second"):
        room.enter(who)
    turns = {who: asyncio.create_task(room.turn(who, 30.0)) for who in ("first", "second")}
    await asyncio.sleep(0)
    held.release()
    async with asyncio.timeout(5):
        await turns["first"]
    assert not turns["second"].done()
    for who in ("second", "newcomer"):
        with pytest.raises(BudgetUsedUp):
            room.check_turn(who)
    room.check_turn("first")
    room.leave("first")
    async with asyncio.timeout(5):
        await turns["second"]
    room.leave("second")
    assert not room.is_waited_for
    room.check_turn("newcomer")


async def test_who_was_woken_and_found_too_little_room_waits_again() -> None:
    """And asks for none until more is given back."""
    room = LargeEvents(100)
    held = room.hold_all([b"x" * 60, b"y" * 40])
    room.enter("only")
    held[0].release()
    await room.turn("only", 30.0)
    room.enter("only")
    turn = asyncio.create_task(room.turn("only", 30.0))
    await asyncio.sleep(0.05)
    assert not turn.done()
    held[1].release()
    async with asyncio.timeout(5):
        await turn


async def test_a_turn_that_does_not_come_is_not_waited_for_longer_than_said() -> None:
    room = LargeEvents(100)
    room.enter("only")
    await room.turn("only", 0.01)
    assert room.is_waited_for


class _Log:
    """Large events without end, each an object of its own."""

    async def batch(self, after: int, *, to: int | None = None) -> PulledEvents:
        return PulledEvents([PulledEvent(after + 1, "large", bytes(100_000))], after + 1, False, None)


async def test_who_goes_away_stands_in_nobodys_way() -> None:
    """Who has room and who waits for it keep others waiting; one that ends gives back both, and the next is woken at once."""
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
    assert (0, False) == (room.held, room.is_waited_for)
