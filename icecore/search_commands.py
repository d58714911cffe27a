"""The search for tables and views at the command line."""

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .access.resolve_warehouse import find_warehouse
from .api.management.search import found_tabular, search_text
from .compose import open_catalog
from .demo_warehouse import operator_context
from .domain.project import PROJECT_ID_DEFAULT
from .exit_codes import ExitCode
from .log_database import opened_database, require_schema
from .output import cell, print_table
from .queries.search_tabulars import FoundTabular, search_tabulars
from .settings import Settings


def search(settings: Settings, console: Console, reference: str, text: str, *, as_json: bool) -> ExitCode:
    """Prints what is found in a warehouse, active or not, the best match first."""

    async def run(opened: Settings) -> list[FoundTabular]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                warehouse = await find_warehouse(connection, PROJECT_ID_DEFAULT, reference, any_project=True)
            context = operator_context("searchTabular", warehouse.project_id)
            return await search_tabulars(catalog.queries, context, warehouse.id, search_text(text))

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps([found_tabular(each) for each in found]).decode(), highlight=False)
        return ExitCode.OK
    if not found:
        console.out("nothing is found", highlight=False)
        return ExitCode.OK
    table = Table("name", "type", "id", "distance", box=None, pad_edge=False)
    for each in found:
        path = ".".join([*each.namespace, each.name])
        table.add_row(cell(path), each.kind, str(each.object_id), "" if each.distance is None else f"{each.distance:.2f}")
    print_table(console, table)
    return ExitCode.OK
