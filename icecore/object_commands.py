"""Commands for operators on single namespaces, tables and views. They use the database directly, with or without a running server."""

from uuid import UUID

import orjson
import uvloop
from rich.console import Console

from .access.warehouse import Warehouse
from .commands.execution.command_response import CommandResponse
from .commands.execution.executor import CommandExecutor
from .commands.namespaces.move_namespace import move_namespace as execute_move_namespace
from .commands.protection.set_protection import set_namespace_protection, set_table_protection, set_view_protection
from .compose import open_catalog
from .database.connections import Connection
from .demo_warehouse import operator_context
from .domain.commands import MoveNamespace, SetNamespaceProtection, SetTableProtection, SetViewProtection
from .domain.errors import BadRequest
from .domain.identifiers import ContentKind, NamespaceIdentifier, TabularIdentifier, uuid_or_none
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_writable
from .open_warehouse import named_warehouse
from .projections import names
from .settings import Settings


def protect(settings: Settings, console: Console, kind: ContentKind, name: str, *, protected: bool, as_json: bool) -> ExitCode:
    """Sets the protection of an object as the management API does, and prints it. name -- as in `find_object`."""

    async def run(opened: Settings) -> tuple[Warehouse, UUID]:
        await require_writable(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                warehouse, object_id = await find_object(connection, kind, name)
            await _protect(catalog.commands, warehouse, kind, object_id, protected=protected)
        return warehouse, object_id

    with opened_database(settings) as opened:
        warehouse, object_id = uvloop.run(run(opened))
    if as_json:
        found = {"kind": kind, "id": str(object_id), "warehouse-id": str(warehouse.id), "protected": protected}
        console.out(orjson.dumps(found).decode(), highlight=False)
    else:
        console.out(f"{name}  {object_id}  {'protected' if protected else 'not protected'}", highlight=False)
    return ExitCode.OK


def move_namespace(
    settings: Settings, console: Console, reference: str, source: str, destination: str, *, force: bool, as_json: bool
) -> ExitCode:
    """Moves a namespace of a warehouse as the management API does, and prints its new path. source -- its path with dots, or its id."""

    async def run(opened: Settings) -> bytes:
        await require_writable(opened)
        path = NamespaceIdentifier.parse(destination.split("."))
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                warehouse, namespace_id = await find_object(connection, "namespace", f"{reference}:{source}")
            context = operator_context("moveNamespace", warehouse.project_id)
            result = await execute_move_namespace(catalog.commands, context, warehouse, MoveNamespace(namespace_id, path, force))
        assert isinstance(result.body, bytes), "the response is one bytes object"
        return result.body

    with opened_database(settings) as opened:
        body = uvloop.run(run(opened))
    moved = orjson.loads(body)
    console.out(body.decode() if as_json else f"{'.'.join(moved['namespace'])}  {moved['namespace-id']}", highlight=False)
    return ExitCode.OK


async def find_object(connection: Connection, kind: ContentKind, text: str) -> tuple[Warehouse, UUID]:
    """The object that `text` names, and its warehouse: `[WAREHOUSE:]NAME`, in which levels are joined by dots, or `[WAREHOUSE:]ID`.

    An id is not looked up. Raises CommandFailed and CatalogError.
    """
    reference, _, path = text.rpartition(":")
    try:
        warehouse = await named_warehouse(connection, reference or None)
    except BadRequest:
        if reference:
            raise
        raise CommandFailed(ExitCode.USAGE, f"there are several warehouses; name one: WAREHOUSE:{path}") from None
    if warehouse.as_of is not None:
        raise CommandFailed(ExitCode.USAGE, "a past state cannot be changed; name the warehouse without a position or time")
    object_id = uuid_or_none(path)
    if object_id is not None:
        return warehouse, object_id
    levels = path.split(".")
    if kind == "namespace":
        return warehouse, await names.find_namespace(connection, warehouse.name_lookup, NamespaceIdentifier.parse(levels))
    if len(levels) == 1:
        raise CommandFailed(ExitCode.USAGE, f"a {kind} is named [WAREHOUSE:]NAMESPACE.{kind.upper()}, or by its id")
    tabular = TabularIdentifier.parse(NamespaceIdentifier.parse(levels[:-1]), levels[-1], f"{kind} name")
    find = names.find_table if kind == "table" else names.find_view
    return warehouse, await find(connection, warehouse.name_lookup, tabular)


async def _protect(
    executor: CommandExecutor, warehouse: Warehouse, kind: ContentKind, object_id: UUID, *, protected: bool
) -> CommandResponse:
    context = operator_context(f"set{kind.capitalize()}Protection", warehouse.project_id)
    match kind:
        case "namespace":
            return await set_namespace_protection(executor, context, warehouse, SetNamespaceProtection(object_id, protected))
        case "table":
            return await set_table_protection(executor, context, warehouse, SetTableProtection(object_id, protected))
        case "view":
            return await set_view_protection(executor, context, warehouse, SetViewProtection(object_id, protected))
