"""Namespaces at the command line: creation, properties, drops and soft-deleted ones. The commands use the database directly."""

from typing import Any
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .api.iceberg.drop_plans import written_plan
from .api.management.deleted_namespaces import written_namespace
from .commands.namespaces.create_namespace import create_namespace as execute_create_namespace
from .commands.namespaces.drop_namespace import drop_namespace as execute_drop_namespace
from .commands.namespaces.drop_namespace_tree import plan_namespace_drop
from .commands.namespaces.update_namespace_properties import update_namespace_properties
from .compose import open_catalog
from .deletion_commands import of_the_present
from .demo_warehouse import operator_context
from .domain.commands import CreateNamespace, DropNamespace, UpdateNamespaceProperties
from .exit_codes import ExitCode
from .log_database import opened_database, require_schema, require_writable
from .open_warehouse import named_warehouse, open_warehouse
from .output import cell, print_table, printable, shown_milliseconds, shown_time
from .projections import namespace_trees
from .projections.soft_deleted import SoftDeleted
from .queries.load_namespace import load_namespace
from .settings import Settings

_PAGE = 1_000


def make_namespace(settings: Settings, console: Console, reference: str, command: CreateNamespace, *, as_json: bool) -> ExitCode:
    """Creates a namespace in a warehouse as the REST API does, and prints it with its location."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_writable(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("createNamespace", warehouse.project_id)
            response = await execute_create_namespace(catalog.commands, context, of_the_present(warehouse), command)
        assert isinstance(response.body, bytes), "the response is one bytes object"
        created: dict[str, Any] = orjson.loads(response.body)
        return created

    with opened_database(settings) as opened:
        created = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(created).decode(), highlight=False)
    else:
        console.out(f"{'.'.join(created['namespace'])}  {created['properties']['location']}", highlight=False)
    return ExitCode.OK


def change_properties(
    settings: Settings, console: Console, reference: str, command: UpdateNamespaceProperties, *, as_json: bool
) -> ExitCode:
    """Changes the properties of a namespace as the REST API does, and prints the result. Without changes, they are only shown.

    Keys to remove that are not there are named on standard error.
    """
    missing: list[str] = []

    async def run(opened: Settings) -> dict[str, Any]:
        changes = bool(command.updates or command.removals)
        await (require_writable(opened) if changes else require_schema(opened))
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            if changes:
                context = operator_context("updateProperties", warehouse.project_id)
                response = await update_namespace_properties(catalog.commands, context, of_the_present(warehouse), command)
                assert isinstance(response.body, bytes), "the response is one bytes object"
                missing.extend(orjson.loads(response.body)["missing"])
            context = operator_context("loadNamespaceMetadata", warehouse.project_id)
            found = await load_namespace(catalog.queries, context, warehouse, command.namespace)
        return {"namespace": found.levels, "properties": dict(found.properties)}

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    for key in missing:
        Console(stderr=True).out(f"no such property: {printable(key)}", highlight=False)
    if as_json:
        console.out(orjson.dumps(found).decode(), highlight=False)
        return ExitCode.OK
    for key, value in found["properties"].items():
        console.out(printable(f"{key}={value}"), highlight=False)
    return ExitCode.OK


def drop_namespace(settings: Settings, reference: str, command: DropNamespace) -> ExitCode:
    """Drops a namespace of a warehouse as the REST API does."""

    async def run(opened: Settings) -> None:
        await require_writable(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("dropNamespace", warehouse.project_id)
            await execute_drop_namespace(catalog.commands, context, of_the_present(warehouse), command)

    with opened_database(settings) as opened:
        uvloop.run(run(opened))
    return ExitCode.OK


def print_plan(settings: Settings, console: Console, reference: str, command: DropNamespace, *, as_json: bool) -> ExitCode:
    """Prints what a recursive drop would do now."""

    async def run(opened: Settings) -> dict[str, Any]:
        await require_schema(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            context = operator_context("dropNamespace", warehouse.project_id)
            return written_plan(await plan_namespace_drop(catalog.commands, context, warehouse, command))

    with opened_database(settings) as opened:
        plan = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps(plan).decode(), highlight=False)
        return ExitCode.OK
    table = Table("name", "type", "id", "action", "files", "protected", box=None, pad_edge=False)
    for each in plan["objects"]:
        name = cell(".".join((*each["namespace"], each["name"])))
        files = "deleted" if each["purge"] else "kept" if each["type"] == "table" else ""
        table.add_row(name, each["type"], str(each["id"]), each["action"], files, "yes" if each["protected"] else "")
    print_table(console, table)
    if unlisted := plan["soft-deleted-not-listed"]:
        console.out(f"and {unlisted} more that are soft-deleted already", highlight=False)
    return ExitCode.OK


def list_deleted_namespaces(settings: Settings, console: Console, reference: str, *, as_json: bool) -> ExitCode:
    """Prints the namespaces of a warehouse that can be undropped, not those that were dropped with another."""

    async def run(opened: Settings) -> tuple[UUID, list[SoftDeleted]]:
        await require_schema(opened)
        found: list[SoftDeleted] = []
        after: UUID | None = None
        async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
            warehouse = await named_warehouse(connection, reference)
            while page := await namespace_trees.list_roots(connection, warehouse.id, after, _PAGE):
                found += page
                after = page[-1].object_id
        return warehouse.id, found

    with opened_database(settings) as opened:
        warehouse_id, found = uvloop.run(run(opened))
    if as_json:
        written = [written_namespace(warehouse_id, each) for each in found]
        console.out(orjson.dumps(written, option=orjson.OPT_UTC_Z).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.out("no namespace is soft-deleted", highlight=False)
        return ExitCode.OK
    table = Table("name", "id", "dropped", "expires", box=None, pad_edge=False)
    for each in found:
        table.add_row(cell(each.path), str(each.object_id), shown_time(each.dropped_at), shown_milliseconds(each.expires_at_ms))
    print_table(console, table)
    return ExitCode.OK
