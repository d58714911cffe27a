"""Records maintenance runs: each has its own stream, with its plan first and its outcome last."""

from collections.abc import Mapping
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
from ..execution.append_request import AppendRequest
from ..execution.executor import CommandExecutor


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A procedure with the reason to run it. estimate -- domain/maintenance.py, MEASURES. shadow -- it is only recorded."""

    procedure: str
    reason: str
    estimate: Mapping[str, int]
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table that may be maintained, as it is now: it may have been renamed or altered since it was planned."""

    id: UUID
    warehouse: Warehouse
    namespace: tuple[str, ...]
    name: str
    location: str
    properties: Mapping[str, str]


async def table_to_maintain(executor: CommandExecutor, principal: Principal, warehouse_id: UUID, table_id: UUID) -> MaintainedTable:
    """Raises NoSuchTable for a table that does not exist or is soft-deleted, TableProtected, and NoSuchWarehouse or WarehouseReadOnly if
    nothing may be changed in its warehouse.
    """
    async with executor.connection() as connection:
        of_warehouse = await warehouses.read_of_any_project(connection, warehouse_id)
        path = await names.path_names(connection, table_id)
    if of_warehouse is None or of_warehouse.status == "deleted":
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
    warehouse = as_warehouse(of_warehouse, None)
    await executor.authorize(_context(principal, warehouse), [Resource("table", table_id)])
    if not warehouse.active:
        raise warehouse.inactive_error()
    if warehouse.read_only:
        raise warehouse.read_only_error()
    async with executor.large_documents.reservation() as reservation:
        read = await executor.resolver.table_by_id(table_id).read(reservation)
        table = None if read is None else read[0]
        if not isinstance(table, TableState) or table.status != "live":
            raise NoSuchTable(f"Table does not exist: {'.'.join(path[1:]) or table_id}")
        if table.protected:
            raise TableProtected(f"Table is protected, so it is not maintained: {'.'.join(path[1:])}")
        document = table.document.value
        location, properties = document["location"], dict(document.get("properties") or {})
    return MaintainedTable(table_id, warehouse, path[1:-1], path[-1], location, properties)


async def record_plan(executor: CommandExecutor, principal: Principal, table: MaintainedTable, plan: PlannedRun) -> MaintenanceState:
    """Records that a procedure is about to run on the table, or with `shadow` that it would."""
    event = decide_plan(table.id, plan.procedure, plan.reason, plan.estimate, shadow=plan.shadow)
    append_request = AppendRequest(_context(principal, table.warehouse))
    state = append_request.add(uuid7(), table.warehouse.id, None, [event], shown_to_hooks=False)
    assert isinstance(state, MaintenanceState)
    await _append(executor, append_request)
    return state


async def record_outcome(
    executor: CommandExecutor,
    principal: Principal,
    warehouse: Warehouse,
    run: MaintenanceState,
    outcome: Outcome,
    measured: Mapping[str, int],
    *,
    attempts: int,
    duration_ms: int,
    error: str | None = None,
) -> None:
    """Records the outcome. Raises BadRequest for a run that has ended."""
    event = decide_finish(run, outcome, measured, attempts=attempts, duration_ms=duration_ms, error=error)
    append_request = AppendRequest(_context(principal, warehouse))
    append_request.add(run.id, warehouse.id, run, [event], shown_to_hooks=False)
    await _append(executor, append_request)


def _context(principal: Principal, warehouse: Warehouse) -> RequestContext:
    return RequestContext(str(uuid7()), warehouse.project_id, principal, "maintainTable")


async def _append(executor: CommandExecutor, append_request: AppendRequest) -> None:
    outcome = (await executor.committer.submit(append_request)).outcome
    if outcome not in ("appended", "replayed"):
        raise ServiceUnavailable(f"The maintenance run could not be recorded ({outcome})")
