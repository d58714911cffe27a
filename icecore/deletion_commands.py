"""Soft-deleted tables and views at the command line."""

from collections.abc import Sequence
from uuid import UUID

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .access.warehouse import Warehouse
from .api.management.deleted_tabulars import written_tabular
from .commands.namespaces.undrop_namespace import undrop_namespace
from .commands.tabulars.undrop_tabulars import undrop_tabulars
from .compose import open_catalog
from .database.connections import Connection
from .demo_warehouse import operator_context
from .domain.commands import UNDROP_TARGETS_MAX, UndropNamespace, UndropTabulars, UndropTarget
from .domain.identifiers import ContentKind
from .exit_codes import CommandFailed, ExitCode
from .log_database import opened_database, require_schema, require_writable
from .open_warehouse import named_warehouse
from .output import cell, print_table, shown_milliseconds
from .projections import namespaces, soft_deleted
from .projections.soft_deleted import SoftDeleted
from .settings import Settings

_PAGE = 1_000


def list_deleted(settings: Settings, console: Console, reference: str, *, as_json: bool) -> ExitCode:
    """Prints what is soft-deleted in a warehouse, active or not, in the order of creation."""

    async def run(opened: Settings) -> tuple[UUID, list[SoftDeleted]]:
        await require_schema(opened)
        found: list[SoftDeleted] = []
        async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
            warehouse = await named_warehouse(connection, reference)
            while page := await soft_deleted.list_soft_deleted(
                connection, warehouse.id, None, found[-1].object_id if found else None, _PAGE
            ):
                found += page
        return warehouse.id, found

    with opened_database(settings) as opened:
        warehouse_id, found = uvloop.run(run(opened))
    if as_json:
        written = [written_tabular(warehouse_id, each) for each in found]
        console.out(orjson.dumps(written, option=orjson.OPT_UTC_Z).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.out("no table or view is soft-deleted", highlight=False)
        return ExitCode.OK
    table = Table("name", "type", "id", "expires", "files", box=None, pad_edge=False)
    for each in found:
        files = "deleted then" if each.purges else "kept"
        table.add_row(cell(each.path), each.kind, str(each.object_id), shown_milliseconds(each.expires_at_ms), files)
    print_table(console, table)
    return ExitCode.OK


def undrop(settings: Settings, reference: str, ids: Sequence[UUID], *, force: bool) -> ExitCode:
    """Undrops tables and views, or one namespace, as the management API does."""
    if len(ids) > UNDROP_TARGETS_MAX or len(set(ids)) < len(ids):
        raise CommandFailed(ExitCode.USAGE, f"give at most {UNDROP_TARGETS_MAX} ids, each once")

    async def run(opened: Settings) -> None:
        await require_writable(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                warehouse = await named_warehouse(connection, reference)
                kinds = await _kinds(connection, warehouse.id, ids)
            for each in ids:
                if each not in kinds:
                    raise CommandFailed(ExitCode.NO, f"warehouse {warehouse.name} has no table, view or namespace with the id {each}")
            present = of_the_present(warehouse)
            if "namespace" in kinds.values():
                if len(ids) > 1:
                    raise CommandFailed(ExitCode.USAGE, "a namespace is undropped alone: give one id")
                context = operator_context("undropNamespace", warehouse.project_id)
                await undrop_namespace(catalog.commands, context, present, UndropNamespace(ids[0], force))
                return
            targets = [UndropTarget("view" if kinds[each] == "view" else "table", each) for each in ids]
            context = operator_context("undropTabulars", warehouse.project_id)
            await undrop_tabulars(catalog.commands, context, present, UndropTabulars(targets, force))

    with opened_database(settings) as opened:
        uvloop.run(run(opened))
    return ExitCode.OK


async def _kinds(connection: Connection, warehouse_id: UUID, ids: Sequence[UUID]) -> dict[UUID, ContentKind]:
    """The kind of each id that the warehouse has or had."""
    found = await namespaces.read_states(connection, ids)
    kinds: dict[UUID, ContentKind] = {state.id: "namespace" for state, _ in found if state.warehouse_id == warehouse_id}
    tables = await soft_deleted.statuses(connection, warehouse_id, [("table", each) for each in ids])
    views = await soft_deleted.statuses(connection, warehouse_id, [("view", each) for each in ids])
    kinds |= {object_id: "table" for _, object_id in tables}
    kinds |= {object_id: "view" for _, object_id in views}
    return kinds


def of_the_present(warehouse: Warehouse) -> Warehouse:
    """The warehouse, for a change. Raises CommandFailed if it is named with a position or time."""
    if warehouse.as_of is not None:
        raise CommandFailed(ExitCode.USAGE, "a past state cannot be changed; name the warehouse without a position or time")
    return warehouse
