"""The stream of a maintenance run: its plan, and one outcome."""

from typing import Any
from uuid import UUID

import pytest

from icecore.domain.errors import BadRequest
from icecore.domain.events import Event, MaintenanceFinished, MaintenancePlanned, TaskStopped
from icecore.domain.maintenance import ERROR_LENGTH_MAX, MaintenanceState, decide_finish, decide_plan, evolve

RUN, EVENT, WAREHOUSE, TABLE = (UUID(int=number) for number in range(1, 5))


def folded(*events: Event) -> MaintenanceState:
    state: MaintenanceState | None = None
    for version, event in enumerate(events, 1):
        state = evolve(state, RUN, version, EVENT, WAREHOUSE, event)
    assert state is not None
    return state


def finished(state: MaintenanceState, error: str | None = None, **measured: int) -> MaintenanceFinished:
    measures = {name.replace("_", "-"): count for name, count in measured.items()}
    return decide_finish(state, "success", measures, attempts=2, duration_ms=30, error=error)


def test_a_run_is_planned_and_finishes_once() -> None:
    planned = decide_plan(TABLE, "rewrite_manifests", "why", {"manifests-removed": 9}, shadow=False)
    assert MaintenancePlanned(TABLE, "rewrite_manifests", "why", {"manifests-removed": 9}, False) == planned
    state = folded(planned)
    assert MaintenanceState(RUN, 1, EVENT, WAREHOUSE, TABLE, "rewrite_manifests", False) == state
    event = finished(state, "e" * (ERROR_LENGTH_MAX + 1), manifests_removed=8)
    expected: dict[str, Any] = {"manifests-removed": 8}
    assert MaintenanceFinished(TABLE, "rewrite_manifests", "success", expected, 2, 30, "e" * ERROR_LENGTH_MAX) == event
    ended = folded(planned, event)
    assert (2, True) == (ended.version, ended.finished)
    with pytest.raises(BadRequest, match="has ended"):
        finished(ended)


def test_a_shadow_has_no_outcome() -> None:
    state = folded(decide_plan(TABLE, "expire_snapshots", "why", {}, shadow=True))
    assert state.shadow
    with pytest.raises(BadRequest, match="shadow mode"):
        finished(state)


def test_unknown_procedures_and_measures_are_refused() -> None:
    with pytest.raises(BadRequest, match="Unknown procedure: vacuum"):
        decide_plan(TABLE, "vacuum", "why", {}, shadow=False)
    with pytest.raises(BadRequest, match="Unknown measure: rows"):
        decide_plan(TABLE, "rewrite_manifests", "why", {"rows": 1}, shadow=False)
    with pytest.raises(BadRequest, match="Unknown measure: rows"):
        finished(folded(decide_plan(TABLE, "rewrite_manifests", "why", {}, shadow=False)), rows=1)


def test_other_events_do_not_belong_to_a_run() -> None:
    with pytest.raises(AssertionError, match="TaskStopped"):
        folded(TaskStopped("tabular_purge", "table", TABLE))
