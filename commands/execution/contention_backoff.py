"""Delays the refusals of conflicting commits, so that competing clients retry one after the other (docs/decisions/0003).

If n clients load a table and commit to it, one wins and n - 1 are refused. If all are refused at once, they all retry at once, and all
but one fail again. If the refusals are sent one by one, the clients retry one by one, and together get as much done as a single client.

Turn: the time in which a client whose refusal was sent may retry, before the next refusal is sent. Quantum: the time for which a client
that wins repeatedly may go on first, because two clients at a time would fail half the time. Round: the time in which every waiting
client should get a turn; the more refusals wait, the shorter the quantum. If the refused clients do not retry, twice as many refusals
are sent next. A refusal is delayed only if several came within a short time, and never longer than DELAY_SECONDS_MAX.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

DELAY_SECONDS_MAX = 5.0
DELAYED_REFUSALS_MAX = 1_024
# Refusals are delayed from this many within this time.
CONTENTION_REFUSALS = 3
CONTENTION_SECONDS = 0.5
# How long a refused client may take to retry before the next refusal is sent: a multiple of the time between commits, within bounds.
BACKOFF_INTERVALS = 2.0
BACKOFF_SECONDS_MIN = 0.02
BACKOFF_SECONDS_MAX = 0.5

# How long a client that keeps winning, or another process, may continue before the next refusal is sent.
QUANTUM_SECONDS_MAX = 0.05
# The time in which every waiting client should get a turn while a client keeps winning.
ROUND_SECONDS = 0.8
# If winners do not commit again, one success in this many is followed by a wait, to find out whether they now do.
_WINNER_CHECK_INTERVAL = 8

_NEWEST_WEIGHT = 0.2


class ContentionBackoff:
    """The delayed refusals of commits to one object."""

    def __init__(self) -> None:
        self._delayed: deque[tuple[Callable[[], None], float]] = deque()
        self._recent: deque[float] = deque(maxlen=CONTENTION_REFUSALS)
        self._turn_ends = 0.0
        self._interval = BACKOFF_SECONDS_MIN
        self._succeeded_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._quantum_ends = 0.0
        self._successes = 0
        self._winner_commits_again = False
        self._waits_for_winner = False
        # How many refusals were sent last, if no client has retried since.
        self._sent = 0

    @property
    def delayed(self) -> int:
        """Number of delayed refusals."""
        return len(self._delayed)

    def refuse(self, send: Callable[[], None]) -> None:
        """Calls `send`, which sends a refusal, now or when it is its turn."""
        now = time.monotonic()
        self._recent.append(now)
        contended = len(self._recent) == CONTENTION_REFUSALS and now - self._recent[0] < CONTENTION_SECONDS
        if not contended or len(self._delayed) >= DELAYED_REFUSALS_MAX or (not self._delayed and now >= self._turn_ends):
            send()
            self._begin_turn(now)
            return
        self._delayed.append((send, now + DELAY_SECONDS_MAX))
        self._sent = 0
        self._schedule(now)

    def commit_succeeded(self) -> None:
        """Records a successful commit, and sends the next refusal unless the winner may still go on."""
        now = time.monotonic()
        self._interval += _NEWEST_WEIGHT * (min(now - self._succeeded_at, BACKOFF_SECONDS_MAX) - self._interval)
        self._succeeded_at = now
        self._successes += 1
        self._sent = 0
        self._winner_commits_again = self._winner_commits_again or self._waits_for_winner
        checks = self._winner_commits_again or self._successes % _WINNER_CHECK_INTERVAL == 0
        self._waits_for_winner = bool(self._delayed) and checks and now < self._quantum_ends
        if self._waits_for_winner:
            self._begin_turn(now)
            self._schedule(now)
        else:
            self._send_next(now)

    def commit_conflicted(self) -> None:
        """Records that another process committed first. No refusal is sent while that process may go on."""
        now = time.monotonic()
        self._waits_for_winner = False
        self._sent = 0
        self._turn_ends = now + QUANTUM_SECONDS_MAX
        self._schedule(now)

    def _begin_turn(self, now: float) -> None:
        self._turn_ends = now + min(max(BACKOFF_INTERVALS * self._interval, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX)

    def _send_next(self, now: float) -> None:
        self._sent = min(2 * self._sent or 1, len(self._delayed))
        for _ in range(self._sent):
            send, _ = self._delayed.popleft()
            send()
            self._quantum_ends = now + min(QUANTUM_SECONDS_MAX, ROUND_SECONDS / (1 + len(self._delayed)))
        self._begin_turn(now)
        self._schedule(now)

    def _schedule(self, now: float) -> None:
        """Sets a timer for the next refusal, because the client whose turn it is may not retry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed:
            due = min(self._turn_ends, self._delayed[0][1])
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - now), self._turn_ended)

    def _turn_ended(self) -> None:
        self._timer = None
        if self._waits_for_winner:
            self._winner_commits_again = self._waits_for_winner = False
        self._send_next(time.monotonic())
