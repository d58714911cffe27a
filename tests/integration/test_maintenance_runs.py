"""Runs of maintenance are recorded in the log, and begin only on tables that may be changed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from icecore.access.request_context import ANONYMOUS
from icecore.access.resolve_warehouse import resolve_warehouse
from icecore.access.warehouse import Warehouse
from icecore.commands.maintenance.record_runs import PlanMaintenance, begin_run, finish_run
from icecore.commands.protection.set_protection import set_table_protection
from icecore.commands.warehouses.change_warehouse import change_warehouse
from icecore.compose import Application
from icecore.domain.commands import SetTableProtection
from icecore.domain.errors import BadRequest, CatalogError, Forbidden, NoSuchTable, NoSuchWarehouse, TableProtected, WarehouseReadOnly
from icecore.domain.warehouse import SetWarehouseReadOnly, SetWarehouseStatus, WarehouseChange
from icecore.maintenance_commands import _check_policy
from icecore.pipeline.maintain import CannotMaintain
from icecore.pipeline.maintenance_plan import Candidate
from icecore.pipeline.maintenance_policy import MaintenancePolicy
from icecore.projections.rebuild import rebuild
from icecore.projections.verify import verify
from tests.fixtures.catalog import context
from tests.integration.test_purge_job import a_table, dropped, the_warehouse
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


def plan(warehouse: Warehouse, table: UUID, **given: Any) -> PlanMaintenance:
    return PlanMaintenance(warehouse.id, table, "rewrite_data_files", "many small files", {"data-files-removed": 9}, **given)


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
    run = await begin_run(catalog.commands, ANONYMOUS, plan(warehouse, table))
    assert (("a",), "t", warehouse.id) == (run.namespace, run.name, run.warehouse.id)
    assert run.location.endswith("/t")
    await finish_run(catalog.commands, ANONYMOUS, run, "success", {"data-files-removed": 8}, attempts=1, duration_ms=30)
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
    run = await begin_run(catalog.commands, ANONYMOUS, plan(warehouse, table))
    await finish_run(catalog.commands, ANONYMOUS, run, "failed", {}, attempts=1, duration_ms=30, error="The store is away")
    with pytest.raises(CatalogError):
        await finish_run(catalog.commands, ANONYMOUS, run, "success", {}, attempts=1, duration_ms=30)
    assert ["maintenance.planned.v1", "maintenance.finished.v1"] == [topic for topic, _, _ in runs(catalog)]
    assert "The store is away" == runs(catalog)[-1][2]["error"]


async def test_a_shadow_is_only_planned(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    run = await begin_run(catalog.commands, ANONYMOUS, plan(warehouse, table, shadow=True))
    with pytest.raises(BadRequest):
        await finish_run(catalog.commands, ANONYMOUS, run, "success", {}, attempts=1, duration_ms=30)
    assert [True] == [state["shadow"] for _, _, state in runs(catalog)]


async def refused(catalog: Application, command: PlanMaintenance) -> str:
    """The type of the error. Nothing was recorded."""
    with pytest.raises(CatalogError) as error:
        await begin_run(catalog.commands, ANONYMOUS, command)
    assert [] == runs(catalog)
    return type(error.value).__name__


async def test_nothing_is_recorded_if_the_properties_of_the_table_forbid_it(
    catalog: Application, warehouse: Warehouse, table: UUID
) -> None:
    """They may have changed since the plan."""

    def check(properties: Mapping[str, str]) -> None:
        raise LookupError(dict(properties))

    with pytest.raises(LookupError):
        await begin_run(catalog.commands, ANONYMOUS, plan(warehouse, table), check=check)
    assert [] == runs(catalog)


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        ({"icecore.maintenance.enabled": "false"}, "do not permit rewrite_data_files"),
        ({"icecore.maintenance.procedures": "expire_snapshots"}, "do not permit rewrite_data_files"),
        ({"icecore.maintenance.min-input-files": "many"}, "Invalid icecore.maintenance.min-input-files"),
        ({}, "do not permit rewrite_data_files"),
        ({"icecore.maintenance.enabled": "true", "icecore.maintenance.min-input-files": "9"}, None),
    ],
)
def test_the_properties_of_the_moment_count(properties: dict[str, str], refusal: str | None) -> None:
    """Those of the table before those of its namespaces."""
    inherited = {"icecore.maintenance.enabled": "false"}
    planned = Candidate(UUID(int=1), UUID(int=2), "t", "rewrite_data_files", "", {}, inherited)
    policies: list[MaintenancePolicy] = []
    if refusal is None:
        _check_policy(planned, policies, properties)
        assert [9] == [each.min_input_files for each in policies]
    else:
        with pytest.raises(CannotMaintain, match=refusal):
            _check_policy(planned, policies, properties)


async def test_a_dropped_table_is_not_maintained(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    warehouse = await soft_deleting(catalog, warehouse)
    await dropped(catalog, warehouse, "t")
    assert NoSuchTable.__name__ == await refused(catalog, plan(warehouse, table))
    assert NoSuchTable.__name__ == await refused(catalog, plan(warehouse, UUID(int=7)))


async def test_a_protected_table_is_not_maintained(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    await set_table_protection(catalog.commands, context("setTableProtection"), warehouse, SetTableProtection(table, True))
    assert TableProtected.__name__ == await refused(catalog, plan(warehouse, table))


async def test_a_warehouse_must_be_active_and_writable(catalog: Application, warehouse: Warehouse, table: UUID) -> None:
    async def change(command: WarehouseChange) -> None:
        current = await resolve_warehouse(catalog.backends, warehouse.project_id, str(warehouse.id))
        await change_warehouse(catalog.commands, context("changeWarehouse"), current, command)

    await change(SetWarehouseReadOnly(True))
    assert WarehouseReadOnly.__name__ == await refused(catalog, plan(warehouse, table))
    await change(SetWarehouseReadOnly(False))
    await change(SetWarehouseStatus(False))
    assert NoSuchWarehouse.__name__ == await refused(catalog, plan(warehouse, table))
    assert NoSuchWarehouse.__name__ == await refused(catalog, replace(plan(warehouse, table), warehouse_id=UUID(int=7)))


async def test_it_is_authorized(catalog: Application, warehouse: Warehouse, table: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def refuse(context: Any, resources: Any) -> None:
        asked.append((context.operation, [(each.kind, each.id) for each in resources]))
        raise Forbidden("no")

    monkeypatch.setattr(catalog.commands, "authorize", refuse)
    assert Forbidden.__name__ == await refused(catalog, plan(warehouse, table))
    assert [("maintainTable", [("table", table)])] == asked
