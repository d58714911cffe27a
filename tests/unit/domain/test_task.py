"""Tasks, given-when-then: when the next attempt begins after one that failed."""

from uuid import UUID

import pytest

from icecore.domain.task import PURGE, TaskOf, TaskState, decide_failure

TASK, TABLE, EVENT, WAREHOUSE = (UUID(int=n) for n in (1, 2, 3, 4))


@pytest.mark.parametrize(("ordered_ms", "expected"), [(None, 20), (15, 20), (30, 30)])
def test_a_retry_comes_after_its_pause_and_not_before_what_was_ordered(ordered_ms: int | None, expected: int) -> None:
    """Given an order for a moment, when an attempt fails, then the next one begins at the later of that moment and the end of the pause."""
    state = TaskState(TASK, 1, EVENT, WAREHOUSE, scheduled_for_ms=ordered_ms)
    task = TaskOf(TASK, PURGE, "table", TABLE, "scheduled")
    event = decide_failure(task, state, attempt=1, started_at_ms=5, failed_at_ms=10, retry_at_ms=20, error="e")
    assert expected == event.retry_at_ms
