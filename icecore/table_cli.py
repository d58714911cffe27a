"""The commands `icecore table …`."""

from cyclopts import App

from .command_settings import CommonOptions, Json, ProtectionOff, WarehouseName, WarehouseOptions
from .exit_codes import ExitCode
from .output import Output

table = App(name="table", help="Protect tables, list soft-deleted tables and views, and search tables and views.")


@table.command(name="protect")
def protect_table(
    table: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()
) -> ExitCode:
    """Protect a table: it can be dropped and unregistered only with force=true, which engines do not send.

    Parameters
    ----------
    table
        [WAREHOUSE:]NAMESPACE.TABLE, or the table's id in place of its name.
    """
    from . import object_commands

    return object_commands.protect(options.settings(), Output(), "table", table, protected=not off, as_json=as_json)


@table.command(name="deleted")
def list_deleted(warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """List the soft-deleted tables and views of a warehouse, with their ids and when they expire."""
    from . import deletion_commands

    return deletion_commands.list_deleted(options.settings(), Output(), options.in_project(warehouse), as_json=as_json)


@table.command(name="search")
def search_tables(
    warehouse: WarehouseName, text: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Search the tables and views of a warehouse.

    Parameters
    ----------
    text
        Part of a name or of a path joined by dots, even if it is misspelt; or the id of a table, a view or a namespace.
    """
    from . import search_commands

    return search_commands.search(options.settings(), Output(), options.in_project(warehouse), text, as_json=as_json)
