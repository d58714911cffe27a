"""The pauses of a job between the attempts of what has failed: each is twice as long as the one before."""

import time
from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

PAUSE_SECONDS_MIN = 1.0
PAUSE_SECONDS_MAX = 300.0
FAILURES_REMEMBERED_MAX = 10_000


class _Failure(NamedTuple):
    """The failures in a row, the pause, and its end (monotonic seconds)."""

    failures: int
    pause_seconds: float
    until: float


class RetryPauses:
    """Failures by the id of what failed, as long as this process remembers them: the oldest is forgotten first."""

    def __init__(self) -> None:
        self._failures: dict[UUID, _Failure] = {}

    @property
    def failed_ids(self) -> Collection[UUID]:
        """What failed last time."""
        return self._failures.keys()

    def waiting_ids(self) -> list[UUID]:
        """What failed and whose pause has not ended."""
        now = time.monotonic()
        return [each for each, failure in self._failures.items() if failure.until > now]

    def failures_of(self, failed_id: UUID, recorded: int) -> int:
        """Its failures; `recorded` are those in the log."""
        known = self._failures.get(failed_id)
        return recorded if known is None else max(known.failures, recorded)

    def failed(self, failed_id: UUID, failures: int) -> float:
        """Begins the next pause after this number of failures. Returns its seconds."""
        before = self._failures.pop(failed_id, None)
        pause = PAUSE_SECONDS_MIN if before is None else min(before.pause_seconds * 2, PAUSE_SECONDS_MAX)
        if len(self._failures) >= FAILURES_REMEMBERED_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[failed_id] = _Failure(failures, pause, time.monotonic() + pause)
        return pause

    def forget(self, failed_id: UUID) -> None:
        """It succeeded, or is not to wait any longer."""
        self._failures.pop(failed_id, None)
