"""Runs of maintenance on a table: a procedure of Iceberg, from its plan with an estimate to its outcome. Decides and folds their events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal
from uuid import UUID

from .errors import BadRequest
from .events import Event, MaintenanceFinished, MaintenancePlanned

PROCEDURES: Final = (
    "rewrite_data_files",
    "rewrite_position_delete_files",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
)
"""Iceberg's names, in the order in which they run on one table: what one leaves behind, a later one removes."""
MEASURES: Final = (
    "data-files-removed",
    "delete-files-removed",
    "manifests-removed",
    "snapshots-removed",
    "files-deleted",
    "bytes-rewritten",
)
"""The members of estimates and of what was measured: whole numbers. `files-deleted` counts files in the object store."""
ERROR_LENGTH_MAX = 500

Outcome = Literal["success", "conflict", "failed", "unavailable"]


@dataclass(frozen=True, slots=True)
class MaintenanceState:
    """A run at one version of its stream."""

    id: UUID
    version: int
    event_id: UUID
    warehouse_id: UUID
    table_id: UUID
    procedure: str
    shadow: bool
    finished: bool = False


def evolve(
    state: MaintenanceState | None, stream_id: UUID, version: int, event_id: UUID, warehouse_id: UUID, event: Event
) -> MaintenanceState:
    match event:
        case MaintenancePlanned():
            return MaintenanceState(stream_id, version, event_id, warehouse_id, event.table_id, event.procedure, event.shadow)
        case MaintenanceFinished() if state is not None:
            return replace(state, version=version, event_id=event_id, finished=True)
    raise AssertionError(f"{type(event).__name__} is not an event of a maintenance run")


def decide_plan(table_id: UUID, procedure: str, reason: str, estimate: Mapping[str, int], *, shadow: bool) -> MaintenancePlanned:
    """Raises BadRequest for an unknown procedure or measure."""
    if procedure not in PROCEDURES:
        raise BadRequest(f"Unknown procedure: {procedure[:64]} (there are {', '.join(PROCEDURES)})")
    _check_measures(estimate)
    return MaintenancePlanned(table_id, procedure, reason, dict(estimate), shadow)


def decide_finish(
    state: MaintenanceState, outcome: Outcome, measured: Mapping[str, int], *, attempts: int, duration_ms: int, error: str | None
) -> MaintenanceFinished:
    """Raises BadRequest for an unknown measure, and for a run that has ended or was only a shadow."""
    if state.finished or state.shadow:
        raise BadRequest(f"Run {state.id} has {'ended' if state.finished else 'no outcome: it was in shadow mode'}")
    _check_measures(measured)
    cut = None if error is None else error[:ERROR_LENGTH_MAX]
    return MaintenanceFinished(state.table_id, state.procedure, outcome, dict(measured), attempts, duration_ms, cut)


def _check_measures(measures: Mapping[str, int]) -> None:
    for name in measures:
        if name not in MEASURES:
            raise BadRequest(f"Unknown measure: {name[:64]} (there are {', '.join(MEASURES)})")
