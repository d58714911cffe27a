"""Limits the memory of large events that streams send."""

import asyncio

from ..byte_budget import BudgetUsedUp, ByteBudget

LARGE_EVENTS_BYTES_MAX = 32 * 1024 * 1024
"""Of large events that streams are writing, in one worker: 200 clients that read nothing would hold one each."""


class LargeEvents(ByteBudget):
    """Who finds no room is next once there is some, in the order they asked: others who come back all the time would leave none."""

    def __init__(self, bytes_max: int = LARGE_EVENTS_BYTES_MAX) -> None:
        super().__init__("Event streams", bytes_max)
        self._waiting: dict[object, asyncio.Event] = {}

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def check_turn(self, who: object) -> None:
        """Nobody may go before those who wait. Raises BudgetUsedUp."""
        if next(iter(self._waiting), who) is not who:
            raise BudgetUsedUp("Other requests are waiting for memory")

    def enter(self, who: object) -> None:
        """From now on `who` waits, behind all who do already."""
        self._waiting.setdefault(who, asyncio.Event()).clear()

    def leave(self, who: object) -> None:
        """`who` has found room, or wants none any more."""
        self._waiting.pop(who, None)
        self._wake()

    async def turn(self, who: object, seconds: float) -> None:
        """Returns when there may be room for `who`, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting[who].wait()
        except TimeoutError:
            pass

    def give_back(self, size: int) -> None:
        super().give_back(size)
        self._wake()

    def _wake(self) -> None:
        for first in self._waiting.values():
            first.set()
            break
