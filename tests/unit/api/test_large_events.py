"""Room for the large events that streams write: nobody waits for ever."""

import asyncio

import pytest

from api.byte_budget import BudgetUsedUp
from api.history.large_events import LargeEvents


async def test_who_waits_for_room_comes_before_others() -> None:
    """In the order they asked; each is woken when it is its turn, and who comes meanwhile stands behind."""
    room = LargeEvents(100)
    held = room.hold(b"x" * 100)
    for who in ("first", "second"):
        room.enter(who)
    turns = {who: asyncio.create_task(room.turn(who, 30.0)) for who in ("first", "second")}
    await asyncio.sleep(0)
    held.release()
    await turns["first"]
    assert not turns["second"].done()
    for who in ("second", "newcomer"):
        with pytest.raises(BudgetUsedUp):
            room.check_turn(who)
    room.check_turn("first")
    room.leave("first")
    await turns["second"]
    room.leave("second")
    assert not room.is_waited_for
    room.check_turn("newcomer")


async def test_a_turn_that_does_not_come_is_not_waited_for_longer_than_said() -> None:
    room = LargeEvents(100)
    room.enter("only")
    await room.turn("only", 0.01)
    assert room.is_waited_for
