"""Commands for operators on storage: the profile and the credential of a warehouse, and the encryption of credentials."""

from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from rich.console import Console

from .access.warehouse import Warehouse
from .commands.execution.command_response import CommandResponse
from .commands.execution.executor import CommandExecutor
from .commands.warehouses.create_warehouse import CreateWarehouse
from .commands.warehouses.update_storage import StorageUpdate, UpdateStorageCredential, UpdateStorageProfile
from .commands.warehouses.update_storage import update_storage as execute_update_storage
from .commands.warehouses.validate_storage import validate_access, validate_update
from .commands.warehouses.validate_storage import validate_creation as execute_validate_creation
from .compose import Application, open_catalog
from .database.connection import connect
from .demo_warehouse import operator_context
from .exit_codes import ExitCode
from .log_database import opened_database, require_schema, require_writable
from .open_warehouse import named_warehouse
from .operator_commands import (
    named_project_id,
    print_check,
    print_report,
    print_warnings,
    progress,
)
from .projections.watch import Watch
from .secret_keys import count_unreadable, secret_store
from .security.secrets import RewrapReport
from .settings import Settings
from .warehouse_commands import changed_warehouse, print_warehouse


def update_storage(
    settings: Settings, console: Console, reference: str, command: StorageUpdate, *, key_lost: bool = False, as_json: bool
) -> ExitCode:
    """Changes the storage profile or credential of a warehouse as the management API does, and prints the warehouse. Checks of its store
    and warnings are printed to standard error.

    key_lost -- store the credential although the key decrypts no stored one.
    """

    async def execute(executor: CommandExecutor, warehouse: Warehouse) -> CommandResponse:
        if command.storage_credential is not None and not key_lost:
            async with executor.connection() as connection:
                await count_unreadable(connection, executor.secrets)
        operation = "updateStorageProfile" if isinstance(command, UpdateStorageProfile) else "updateStorageCredential"
        return await execute_update_storage(
            executor, operator_context(operation, warehouse.project_id), warehouse, command, on_check=print_check
        )

    found = changed_warehouse(settings, reference, execute)
    assert found is not None
    print_warnings(found)
    return print_warehouse(console, found, as_json=as_json)


def validate_creation(settings: Settings, console: Console, command: CreateWarehouse, project: str | None, *, as_json: bool) -> ExitCode:
    """Prints the checks of a creation in a project (None: the default one)."""

    async def validate(catalog: Application) -> dict[str, Any]:
        async with catalog.backends.connection() as connection:
            context = operator_context("validateWarehouse", await named_project_id(connection, project))
        return await execute_validate_creation(catalog.commands, context, command, None, None)

    return _print_checks(settings, console, validate, as_json=as_json)


def validate_storage(settings: Settings, console: Console, reference: str, change: StorageUpdate | None, *, as_json: bool) -> ExitCode:
    """Prints the checks of a change of a warehouse's storage; None: of the storage that it has."""

    async def validate(catalog: Application) -> dict[str, Any]:
        executor = catalog.commands
        async with catalog.backends.connection() as connection:
            warehouse = await named_warehouse(connection, reference)
        if change is None:
            return await validate_access(executor, operator_context("validateStorageAccess", warehouse.project_id), warehouse)
        of_credential = isinstance(change, UpdateStorageCredential)
        operation = "validateStorageCredential" if of_credential else "validateStorageProfile"
        return await validate_update(executor, operator_context(operation, warehouse.project_id), warehouse, change, None)

    return _print_checks(settings, console, validate, as_json=as_json)


def _print_checks(
    settings: Settings, console: Console, validate: Callable[[Application], Awaitable[dict[str, Any]]], *, as_json: bool
) -> ExitCode:
    """Each check passed, failed or was skipped."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog:
            return await validate(catalog)

    with opened_database(settings) as opened:
        report = uvloop.run(run(opened))
    if as_json:
        print_report(console, report)
    else:
        for check in report["checks"]:
            duration = f"{check['duration-ms']} ms" if "duration-ms" in check else ""
            reason = check.get("reason") or check.get("error", {}).get("message", "")
            console.out(f"{check['name']:34}  {check['status']:7}  {duration:>8}  {reason}".rstrip(), highlight=False)
    return ExitCode.OK if report["valid"] else ExitCode.NO


def rewrap_secrets(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Encrypts stored credentials with the current key. Ids of those that no known key decrypts are printed to standard error."""

    async def run(opened: Settings, watch: Watch) -> RewrapReport:
        await require_schema(opened)
        await require_writable(opened)
        store = secret_store(opened)
        async with await connect(opened.dsn, application_name="icecore-rewrap") as connection:
            return await store.rewrap(connection, watch)

    with opened_database(settings) as opened, progress("encrypting credentials") as watch:
        report = uvloop.run(run(opened, watch))
    for secret_id in report.unreadable:
        Console(stderr=True).out(f"no key decrypts the credential {secret_id}", highlight=False)
    counts = {"rewrapped": report.rewrapped, "unreadable": len(report.unreadable)}
    message = f"credentials encrypted with the current key: {report.rewrapped}; that no key decrypts: {len(report.unreadable)}"
    print_report(console, counts if as_json else message)
    return ExitCode.NO if report.unreadable else ExitCode.OK
