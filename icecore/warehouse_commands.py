"""A warehouse at the command line: its settings, and changes of them. The commands use the database directly."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .access.warehouse import Warehouse
from .api.management.warehouses import written_hour
from .commands.execution.command_response import CommandResponse
from .commands.execution.executor import CommandExecutor
from .commands.warehouses.change_warehouse import change_warehouse as execute_change
from .commands.warehouses.change_warehouse import delete_warehouse, rename_warehouse
from .demo_warehouse import operator_context
from .domain.warehouse import (
    DeleteWarehouse,
    RenameWarehouse,
    SetWarehouseProtection,
    SetWarehousePurgeDefault,
    SetWarehouseReadOnly,
    SetWarehouseStatus,
    UpdateWarehouseDeleteProfile,
    UpdateWarehouseFormatVersionPolicy,
    WarehouseChange,
)
from .durations import duration_text
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema, require_writable
from .open_warehouse import open_warehouse
from .operator_commands import print_report
from .output import print_table, shown_time
from .queries.load_statistics import load_statistics
from .queries.load_warehouse import load_warehouse, updated_up_to
from .settings import Settings

WarehouseCommand = RenameWarehouse | WarehouseChange | DeleteWarehouse
"""The commands on a warehouse, besides those on its storage."""


def print_settings(settings: Settings, console: Console, reference: str, *, as_json: bool) -> ExitCode:
    """Prints a warehouse, active or not, as the management API returns it."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_schema(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("getWarehouse", warehouse.project_id)
            return await load_warehouse(catalog.queries, context, warehouse.id)

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    return print_warehouse(console, found, as_json=as_json)


def print_statistics(settings: Settings, console: Console, reference: str, limit: int, *, as_json: bool) -> ExitCode:
    """Prints the newest hours of a warehouse, active or not, as the management API counts them."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_schema(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("getWarehouseStatistics", warehouse.project_id)
            page = await load_statistics(catalog.queries, context, warehouse.id, before=None, size=limit)
        return {"warehouse-ident": warehouse.id, "stats": [written_hour(each) for each in page.hours], "position": page.position}

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        print_report(console, found)
        return ExitCode.OK
    if not found["stats"]:
        console.out("no statistics", highlight=False)
        return ExitCode.OK
    table = Table("hour until", "tables", "views", "namespaces", "commits", box=None, pad_edge=False)
    for each in found["stats"]:
        counts = (str(each[f"number-of-{name}"]) for name in ("tables", "views", "namespaces", "commits"))
        table.add_row(shown_time(each["timestamp"]), *counts)
    print_table(console, table)
    return ExitCode.OK


def change_warehouse(settings: Settings, console: Console, reference: str, command: WarehouseCommand, *, as_json: bool) -> ExitCode:
    """Changes a warehouse as the management API does, and prints it; nothing after its deletion."""

    found = changed_warehouse(settings, reference, lambda executor, warehouse: _execute(executor, warehouse, command))
    return ExitCode.OK if found is None else print_warehouse(console, found, as_json=as_json)


def changed_warehouse(
    settings: Settings, reference: str, execute: Callable[[CommandExecutor, Warehouse], Awaitable[CommandResponse]]
) -> dict[str, Any] | None:
    """The response to a command on a warehouse; None if it has no body."""

    async def run(opened: Settings) -> dict[str, Any] | None:
        await require_writable(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            if warehouse.as_of is not None:
                raise CommandFailed(ExitCode.USAGE, "a past state cannot be changed; name the warehouse without a position or time")
            response = await execute(catalog.commands, warehouse)
            if response.body is None:
                return None
            assert isinstance(response.body, bytes), "the response is one bytes object"
            found: dict[str, Any] = orjson.loads(response.body)
            return {**found, "updated-at": await updated_up_to(catalog.queries, warehouse.id, response.position)}

    with opened_database(settings) as opened:
        return uvloop.run(run(opened))


def print_warehouse(console: Console, found: dict[str, Any], *, as_json: bool) -> ExitCode:
    if as_json:
        print_report(console, found)
        return ExitCode.OK
    protected = ", protected" if found["protected"] else ""
    read_only = ", read-only" if found["read-only"] else ""
    versions = ", ".join(map(str, found["allowed-format-versions"]))
    default = f" (default {found['default-format-version']})" if "default-format-version" in found else ""
    seconds = found["delete-profile"].get("expiration-seconds")
    deletion = ", hard deletion" if seconds is None else f", soft deletion for {duration_text(seconds)}"
    deletion += ", purge by default" if found["purge-default"] else ""
    status = f"{found['status']}{protected}{read_only}"
    console.out(f"{found['name']}  {found['id']}  {status}, format versions {versions}{default}{deletion}", highlight=False)
    return ExitCode.OK


async def _execute(executor: CommandExecutor, warehouse: Warehouse, command: WarehouseCommand) -> CommandResponse:
    match command:
        case RenameWarehouse():
            return await rename_warehouse(executor, operator_context("renameWarehouse", warehouse.project_id), warehouse, command)
        case DeleteWarehouse():
            return await delete_warehouse(executor, operator_context("deleteWarehouse", warehouse.project_id), warehouse, command)
        case SetWarehouseStatus(active):
            operation = "activateWarehouse" if active else "deactivateWarehouse"
        case SetWarehouseProtection():
            operation = "setWarehouseProtection"
        case SetWarehouseReadOnly():
            operation = "setWarehouseReadOnly"
        case UpdateWarehouseFormatVersionPolicy():
            operation = "updateWarehouseFormatVersionPolicy"
        case UpdateWarehouseDeleteProfile():
            operation = "updateWarehouseDeleteProfile"
        case SetWarehousePurgeDefault():
            operation = "setWarehousePurgeDefault"
    return await execute_change(executor, operator_context(operation, warehouse.project_id), warehouse, command)
