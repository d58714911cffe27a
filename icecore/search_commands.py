"""The search for tables and views at the command line."""

import orjson
import uvloop
from rich.console import Console
from rich.table import Table

from .api.management.search import found_tabular, search_text
from .demo_warehouse import operator_context
from .exit_codes import ExitCode
from .log_database import opened_database, require_schema
from .open_warehouse import open_warehouse
from .output import cell, print_table
from .queries.search_tabulars import FoundTabular, search_tabulars
from .settings import Settings


def search(settings: Settings, console: Console, reference: str, text: str, *, as_json: bool) -> ExitCode:
    """Prints what is found in a warehouse, active or not, the best match first."""

    async def run(opened: Settings) -> list[FoundTabular]:
        await require_schema(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
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
