"""Records runs of maintenance: each has its own stream, with its plan first and its outcome last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from uuid_utils.compat import uuid7

from ...access.authorization import Resource
from ...access.request_context import Principal, RequestContext
from ...access.resolve_warehouse import as_warehouse
from ...access.warehouse import Warehouse
from ...domain.errors import NoSuchTable, NoSuchWarehouse, ServiceUnavailable, TableProtected
from ...domain.maintenance import MaintenanceState, Outcome, decide_finish, decide_plan
from ...domain.table import TableState
from ...projections import names, warehouses
from ..execution.executor import CommandExecutor
from ..execution.submission import Submission


@dataclass(frozen=True, slots=True)
class PlanMaintenance:
    """Records that a procedure is about to run on a table, or with `shadow` that it would. estimate -- domain/maintenance.py, MEASURES."""

    warehouse_id: UUID
    table_id: UUID
    procedure: str
    reason: str
    estimate: Mapping[str, int]
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceRun:
    """A run that may begin. namespace, name, location -- of the table now, which may have been renamed since it was planned."""

    warehouse: Warehouse
    namespace: tuple[str, ...]
    name: str
    location: str
    state: MaintenanceState


async def begin_run(
    executor: CommandExecutor,
    principal: Principal,
    command: PlanMaintenance,
    *,
    check: Callable[[Mapping[str, str]], None] = lambda properties: None,
) -> MaintenanceRun:
    """Records the plan. check -- called with the properties of the table before; if it raises, nothing is recorded.

    Raises NoSuchTable for a table that does not exist or is soft-deleted, TableProtected, and NoSuchWarehouse or
    WarehouseReadOnly if nothing may be changed in its warehouse.
    """
    async with executor.connection() as connection:
        of_warehouse = await warehouses.read_of_any_project(connection, command.warehouse_id)
        path = await names.path_names(connection, command.table_id)
    if of_warehouse is None or of_warehouse.status == "deleted":
        raise NoSuchWarehouse(f"Warehouse does not exist: {command.warehouse_id}")
    warehouse = as_warehouse(of_warehouse, None)
    context = _context(principal, warehouse)
    await executor.authorize(context, [Resource("table", command.table_id)])
    if not warehouse.active:
        raise warehouse.inactive_error()
    if warehouse.read_only:
        raise warehouse.read_only_error()
    async with executor.large_documents.share() as share:
        read = await executor.resolver.table_by_id(command.table_id).read(share)
        table = None if read is None else read[0]
        if not isinstance(table, TableState) or table.status != "live":
            raise NoSuchTable(f"Table does not exist: {'.'.join(path[1:]) or command.table_id}")
        if table.protected:
            raise TableProtected(f"Table is protected, so it is not maintained: {'.'.join(path[1:])}")
        document = table.document.value
        location, properties = document["location"], dict(document.get("properties") or {})
    check(properties)
    planned = decide_plan(command.table_id, command.procedure, command.reason, command.estimate, shadow=command.shadow)
    submission = Submission(context)
    state = submission.add(uuid7(), warehouse.id, None, [planned], reviewed=False)
    assert isinstance(state, MaintenanceState)
    await _append(executor, submission)
    return MaintenanceRun(warehouse, path[1:-1], path[-1], location, state)


async def finish_run(
    executor: CommandExecutor,
    principal: Principal,
    run: MaintenanceRun,
    outcome: Outcome,
    measured: Mapping[str, int],
    *,
    attempts: int,
    duration_ms: int,
    error: str | None = None,
) -> None:
    """Records the outcome. Raises BadRequest for a run that has ended."""
    event = decide_finish(run.state, outcome, measured, attempts=attempts, duration_ms=duration_ms, error=error)
    submission = Submission(_context(principal, run.warehouse))
    submission.add(run.state.id, run.warehouse.id, run.state, [event], reviewed=False)
    await _append(executor, submission)


def _context(principal: Principal, warehouse: Warehouse) -> RequestContext:
    return RequestContext(str(uuid7()), warehouse.project_id, principal, "maintainTable")


async def _append(executor: CommandExecutor, submission: Submission) -> None:
    outcome = (await executor.committer.submit(submission)).outcome
    if outcome not in ("appended", "replayed"):
        raise ServiceUnavailable(f"The run of maintenance could not be recorded ({outcome})")
