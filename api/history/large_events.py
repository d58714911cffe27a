"""Limits the memory of large events that streams send."""

import asyncio

from ..byte_budget import BudgetExhausted, ByteBudget

LARGE_EVENTS_BYTES_MAX = 32 * 1024 * 1024
"""Limit for one serving process. Otherwise 200 clients that do not read would hold one large event each."""


class LargeEvents(ByteBudget):
    """Streams that found no memory get it in the order of their requests. Otherwise those that retry most often would get all of it."""

    def __init__(self, bytes_max: int = LARGE_EVENTS_BYTES_MAX) -> None:
        super().__init__("event streams", bytes_max)
        self._waiting: dict[object, asyncio.Event] = {}

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def check_turn(self, who: object) -> None:
        """Raises BudgetExhausted if other streams wait already."""
        if next(iter(self._waiting), who) is not who:
            raise BudgetExhausted("Other requests are waiting for memory")

    def enter(self, who: object) -> None:
        """Adds `who` to the end of the waiting streams."""
        self._waiting.setdefault(who, asyncio.Event()).clear()

    def leave(self, who: object) -> None:
        """Removes `who`, because it has memory or needs none any more."""
        self._waiting.pop(who, None)
        self._wake()

    async def turn(self, who: object, seconds: float) -> None:
        """Returns when there may be memory for `who`, at the latest after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting[who].wait()
        except TimeoutError:
            pass

    def release(self, size: int) -> None:
        super().release(size)
        self._wake()

    def _wake(self) -> None:
        for first in self._waiting.values():
            first.set()
            break
