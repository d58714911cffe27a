"""Changes of tables and views at the command line: drop, rename, register and unregister. The commands use the database directly."""

import orjson
import uvloop
from rich.console import Console

from .access.request_context import RequestContext
from .access.warehouse import Warehouse
from .commands.execution.command_response import CommandResponse
from .commands.execution.executor import CommandExecutor
from .commands.tables.drop_table import drop_table
from .commands.tables.register_table import register_table
from .commands.tables.rename_table import rename_table
from .commands.tables.unregister_table import unregister_table
from .commands.views.drop_view import drop_view
from .commands.views.register_view import register_view
from .commands.views.rename_view import rename_view
from .deletion_commands import of_the_present
from .demo_warehouse import operator_context
from .domain.byte_pieces import joined
from .domain.commands import DropTable, DropView, RegisterTable, RegisterView, RenameTable, RenameView, UnregisterTable
from .exit_codes import ExitCode
from .log_database import opened_database, require_writable
from .open_warehouse import open_warehouse
from .settings import Settings

TabularCommand = DropTable | RenameTable | RegisterTable | UnregisterTable | DropView | RenameView | RegisterView
"""The commands on a table or view."""


def change_tabular(settings: Settings, reference: str, command: TabularCommand) -> ExitCode:
    """Changes a table or view of a warehouse as the REST API does. Prints nothing."""
    _change(settings, reference, command)
    return ExitCode.OK


def unregister(settings: Settings, console: Console, reference: str, command: UnregisterTable, *, as_json: bool) -> ExitCode:
    """Unregisters a table as the REST API does, and prints the location of its metadata file, by which it can be registered again."""
    content = _change(settings, reference, command).body
    assert content is not None, "the response has the table"
    location = orjson.loads(joined(content))["metadata-location"]
    console.out(orjson.dumps({"metadata-location": location}).decode() if as_json else location, highlight=False)
    return ExitCode.OK


def _change(settings: Settings, reference: str, command: TabularCommand) -> CommandResponse:
    async def run(opened: Settings) -> CommandResponse:
        await require_writable(opened)
        async with open_warehouse(opened, reference) as (catalog, warehouse):
            # The REST specification names its operations after the commands.
            name = type(command).__name__
            context = operator_context(f"{name[0].lower()}{name[1:]}", warehouse.project_id)
            return await _execute(catalog.commands, context, of_the_present(warehouse), command)

    with opened_database(settings) as opened:
        return uvloop.run(run(opened))


async def _execute(executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: TabularCommand) -> CommandResponse:
    match command:
        case DropTable():
            return await drop_table(executor, context, warehouse, command)
        case RenameTable():
            return await rename_table(executor, context, warehouse, command)
        case RegisterTable():
            return await register_table(executor, context, warehouse, command)
        case UnregisterTable():
            return await unregister_table(executor, context, warehouse, command)
        case DropView():
            return await drop_view(executor, context, warehouse, command)
        case RenameView():
            return await rename_view(executor, context, warehouse, command)
        case RegisterView():
            return await register_view(executor, context, warehouse, command)
