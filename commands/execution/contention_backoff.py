"""ContentionBackoff: where many clients commit on what only one of them can win, their refusals are handed out one after the other.

Of n clients that load a table and commit on it, one wins and n - 1 are refused; refused at once, all of them load it again at once,
and all but one have worked for nothing again. Held until it is their turn they come back one by one, and a crowd gets as much done
as one client alone. A winner that commits again and again goes on for a quantum before the next is called, since two at a time would
again work for nothing half the time; the more are waiting, the shorter it is. Where those who were called do not come
back, twice as many are called next: most have gone. Nobody is held who was refused without a crowd, and nobody longer than
HOLD_SECONDS_MAX.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

HOLD_SECONDS_MAX = 5.0
HELD_MAX = 1_024
# A crowd: this many refusals within this time.
CROWD_REFUSALS = 3
CROWD_SECONDS = 0.5
# How long whoever has the turn may take to come back, as a multiple of the time between the last commits, within these bounds.
BACKOFF_INTERVALS = 2.0
BACKOFF_SECONDS_MIN = 0.02
BACKOFF_SECONDS_MAX = 0.5

# How long winners that come back at once, or another process, may go on before the next in the queue is called.
QUANTUM_SECONDS_MAX = 0.05
# In which everybody who waits should have had a turn, where winners come back.
ROUND_SECONDS = 0.8
# Where winners do not come back, one success in so many is waited behind to see whether they do by now.
_LOOK_AGAIN_AFTER = 8

_NEWEST_WEIGHT = 0.2


class ContentionBackoff:
    """The refusals of one object's commits."""

    def __init__(self) -> None:
        self._held: deque[tuple[Callable[[], None], float]] = deque()
        self._recent: deque[float] = deque(maxlen=CROWD_REFUSALS)
        self._turn_ends = 0.0
        self._interval = BACKOFF_SECONDS_MIN
        self._came_through_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._quantum_ends = 0.0
        self._successes = 0
        self._winners_return = False
        self._waits_for_winner = False
        # How many were called last, if nobody has come back since.
        self._called = 0

    @property
    def held(self) -> int:
        """Refusals that wait for their turn."""
        return len(self._held)

    def refuse(self, give: Callable[[], None]) -> None:
        """Gives a refusal now, or when its turn has come."""
        now = time.monotonic()
        self._recent.append(now)
        crowd = len(self._recent) == CROWD_REFUSALS and now - self._recent[0] < CROWD_SECONDS
        if not crowd or len(self._held) >= HELD_MAX or (not self._held and now >= self._turn_ends):
            give()
            self._begin_turn(now)
            return
        self._held.append((give, now + HOLD_SECONDS_MAX))
        self._called = 0
        self._schedule(now)

    def came_through(self) -> None:
        """A commit came to effect: the next in the queue may come back, unless winners do so themselves and still may."""
        now = time.monotonic()
        self._interval += _NEWEST_WEIGHT * (min(now - self._came_through_at, BACKOFF_SECONDS_MAX) - self._interval)
        self._came_through_at = now
        self._successes += 1
        self._called = 0
        self._winners_return = self._winners_return or self._waits_for_winner
        looks = self._winners_return or self._successes % _LOOK_AGAIN_AFTER == 0
        self._waits_for_winner = bool(self._held) and looks and now < self._quantum_ends
        if self._waits_for_winner:
            self._begin_turn(now)
            self._schedule(now)
        else:
            self._next(now)

    def lost(self) -> None:
        """Another process came first: who waits here is not called while it may go on."""
        now = time.monotonic()
        self._waits_for_winner = False
        self._called = 0
        self._turn_ends = now + QUANTUM_SECONDS_MAX
        self._schedule(now)

    def _begin_turn(self, now: float) -> None:
        self._turn_ends = now + min(max(BACKOFF_INTERVALS * self._interval, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX)

    def _next(self, now: float) -> None:
        self._called = min(2 * self._called or 1, len(self._held))
        for _ in range(self._called):
            give, _ = self._held.popleft()
            give()
            self._quantum_ends = now + min(QUANTUM_SECONDS_MAX, ROUND_SECONDS / (1 + len(self._held)))
        self._begin_turn(now)
        self._schedule(now)

    def _schedule(self, now: float) -> None:
        """Whoever has the turn may have gone home: then the next one gets it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            due = min(self._turn_ends, self._held[0][1])
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._turn_ended)

    def _turn_ended(self) -> None:
        self._timer = None
        if self._waits_for_winner:
            self._winners_return = self._waits_for_winner = False
        self._next(time.monotonic())
