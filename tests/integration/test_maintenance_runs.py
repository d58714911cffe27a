"""Runs of maintenance are recorded in the log, and begin only on tables that may be changed."""

from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from icecore.access.request_context import ANONYMOUS
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.maintenance.record_runs import MaintainedTable, PlannedRun, record_outcome, record_plan, table_to_maintain
from icecore.commands.protection.set_protection import set_table_protection
from icecore.commands.tables.commit_table import commit_table
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import CommitTable, SetTableProtection
from icecore.domain.errors import (
    BadRequest,
    CatalogError,
    Forbidden,
    NoSuchTable,
    NoSuchWarehouse,
    TableProtected,
    WarehouseInactive,
    WarehouseReadOnly,
)
from icecore.domain.maintenance import MaintenanceState, Outcome
from icecore.domain.warehouse import SetWarehouseReadOnly, SetWarehouseStatus, WarehouseChange
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from tests.fixtures.catalog import context
from tests.integration.test_purge_job import a_table, dropped, named, the_warehouse
from tests.integration.test_tasks import soft_deleting


@pytest.fixture
async def warehouse(catalog: Application) -> Warehouse:
    return await the_warehouse(catalog)


@pytest.fixture
async def table(catalog: Application, warehouse: Warehouse, tmp_path: Path) -> UUID:
    await a_table(catalog, warehouse, "t", tmp_path / "warehouse" / "t")
    with psycopg.connect(catalog.dsn) as connection:
        row = connection.execute("select originator_id from icecore.events where topic like 'table.%'").fetchone()
    assert row is not None
    found: UUID = row[0]
    return found


async def planned(
    catalog: Application, warehouse: Warehouse, table: UUID, *, shadow: bool = False
) -> tuple[MaintainedTable, MaintenanceState]:
    """The table, and a run on it that is recorded."""
    found = await table_to_maintain(catalog.commands, ANONYMOUS, warehouse.id, table)
    plan = PlannedRun("rewrite_data_files", "many small files", {"data-files-removed": 9}, shadow)
    return found, await record_plan(catalog.commands, ANONYMOUS, found, plan)


async def finish(catalog: Application, warehouse: Warehouse, run: MaintenanceState, outcome: Outcome, **given: Any) -> None:
    measured = {"data-files-removed": 8} if outcome == "success" else {}
    await record_outcome(catalog.commands, ANONYMOUS, warehouse, run, outcome, measured, attempts=1, duration_ms=30, **given)


def runs(catalog: Application) -> list[tuple[str, int, Any]]:
    """The type, version and state of each event of maintenance."""
    query = (
        "select topic, originator_version, convert_from(state, 'utf8')::jsonb from icecore.events where topic like 'maintenance.%'"
        " order by notification_id"
    )
    with psycopg.connect(catalog.dsn) as connection:
        return connection.execute(query).fetchall()


async def test_a_run_is_two_events_of_one_stream(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    """Which neither a rebuild nor a comparison with the log stumbles on."""
    found, run = await planned(catalog, warehouse, table)
    assert (("a",), "t", warehouse.id) == (found.namespace, found.name, found.warehouse.id)
    assert found.location.endswith("/t")
    await finish(catalog, warehouse, run, "success")
    of_table = {"table-id": str(table), "procedure": "rewrite_data_files"}
    assert [
        ("maintenance.planned.v1", 1, {**of_table, "reason": "many small files", "estimate": {"data-files-removed": 9}, "shadow": False}),
        (
            "maintenance.finished.v1", 2,
            {**of_table, "outcome": "success", "measured": {"data-files-removed": 8}, "attempts": 1, "duration-ms": 30},
        ),
    ] == runs(catalog)  # fmt: skip
    assert (await verify(catalog.dsn)).ok
    await rebuild(catalog.dsn)
    assert (await verify(catalog.dsn)).ok


async def test_only_the_first_outcome_is_recorded(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    _, run = await planned(catalog, warehouse, table)
    await finish(catalog, warehouse, run, "failed", error="The store is away")
    with pytest.raises(CatalogError):
        await finish(catalog, warehouse, run, "success")
    assert ["maintenance.planned.v1", "maintenance.finished.v1"] == [topic for topic, _, _ in runs(catalog)]
    assert "The store is away" == runs(catalog)[-1][2]["error"]


async def test_a_shadow_is_only_planned(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    _, run = await planned(catalog, warehouse, table, shadow=True)
    with pytest.raises(BadRequest):
        await finish(catalog, warehouse, run, "success")
    assert [True] == [state["shadow"] for _, _, state in runs(catalog)]


async def refused(catalog: Application, warehouse_id: UUID, table_id: UUID) -> str:
    """The type of the error. Nothing was recorded."""
    with pytest.raises(CatalogError) as error:
        await table_to_maintain(catalog.commands, ANONYMOUS, warehouse_id, table_id)
    assert [] == runs(catalog)
    return type(error.value).__name__


async def test_the_table_is_found_with_its_properties_of_the_moment(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    """A plan may be older than they are."""
    updates = [{"action": "set-properties", "updates": {"icecore.maintenance.enabled": "false"}}]
    await commit_table(catalog.commands, context("updateTable"), warehouse, CommitTable(named("t"), [], updates))
    found = await table_to_maintain(catalog.commands, ANONYMOUS, warehouse.id, table)
    assert "false" == found.properties["icecore.maintenance.enabled"]


async def test_a_dropped_table_is_not_maintained(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    warehouse = await soft_deleting(catalog, warehouse)
    await dropped(catalog, warehouse, "t")
    assert NoSuchTable.__name__ == await refused(catalog, warehouse.id, table)
    assert NoSuchTable.__name__ == await refused(catalog, warehouse.id, UUID(int=7))


async def test_a_protected_table_is_not_maintained(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    await set_table_protection(catalog.commands, context("setTableProtection"), warehouse, SetTableProtection(table, True))
    assert TableProtected.__name__ == await refused(catalog, warehouse.id, table)


async def test_a_warehouse_must_be_active_and_writable(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    async def change(command: WarehouseChange) -> None:
        current = await resolve_warehouse(catalog.backends, warehouse.project_id, str(warehouse.id))
        await change_warehouse(catalog.commands, context("changeWarehouse"), current, command)

    await change(SetWarehouseReadOnly(True))
    assert WarehouseReadOnly.__name__ == await refused(catalog, warehouse.id, table)
    await change(SetWarehouseReadOnly(False))
    await change(SetWarehouseStatus(False))
    assert WarehouseInactive.__name__ == await refused(catalog, warehouse.id, table)
    assert NoSuchWarehouse.__name__ == await refused(catalog, UUID(int=7), table)


async def test_it_is_authorized(catalog: Application, warehouse: Warehouse, table: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def refuse(context: Any, resources: Any) -> None:
        asked.append((context.operation, [(each.kind, each.id) for each in resources]))
        raise Forbidden("no")

    monkeypatch.setattr(catalog.commands, "authorize", refuse)
    assert Forbidden.__name__ == await refused(catalog, warehouse.id, table)
    assert [("maintainTable", [("table", table)])] == asked
