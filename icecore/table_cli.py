"""The commands `icecore table …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import CommonOptions, Flag, Json, ProtectionOff, WarehouseName, WarehouseOptions
from .exit_codes import ExitCode
from .output import Output

table = App(name="table", help="List, print, register, unregister, rename, protect, drop and search tables, and list soft-deleted ones.")


@table.command(name="list")
def list_tables(
    warehouse: WarehouseName, namespace: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """List the tables directly in a namespace.

    Parameters
    ----------
    namespace
        The namespace, with dots between levels.
    """
    from . import content_commands

    return content_commands.list_objects(options.settings(), Output(), "table", options.in_project(warehouse), namespace, as_json=as_json)


@table.command(name="get")
def get_table(
    warehouse: WarehouseName, table: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Print the location, snapshots, columns, properties and protection of a table. With --json, print all of its metadata.

    Parameters
    ----------
    table
        NAMESPACE.TABLE, with dots between levels, or the table's id.
    """
    from . import content_commands

    return content_commands.print_object(options.settings(), Output(), "table", options.in_project(warehouse), table, as_json=as_json)


@table.command(name="rename")
def rename_table(warehouse: WarehouseName, source: str, destination: str, /, *, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Rename a table, or move it to another namespace of the warehouse. Its files stay where they are.

    Parameters
    ----------
    source
        The table: NAMESPACE.TABLE, with dots between levels.
    destination
        Its new path: NAMESPACE.TABLE. The namespace must exist.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import RenameTable

    names = [content_commands.parsed_tabular("table", each) for each in (source, destination)]
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), RenameTable(*names))


@table.command(name="drop")
def drop_table(
    warehouse: WarehouseName,
    table: str,
    /,
    *,
    purge: Annotated[bool | None, Parameter(negative="--no-purge")] = None,
    force: Flag = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Drop a table. In a soft-deleting warehouse it can be undropped until it expires.

    Parameters
    ----------
    table
        NAMESPACE.TABLE, with dots between levels.
    purge
        Whether its files are deleted. Default: the warehouse's purge default.
    force
        Drop it even if it is protected. The drop is then final: it cannot be undropped.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import DropTable

    command = DropTable(content_commands.parsed_tabular("table", table), purge, force)
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), command)


@table.command(name="register")
def register_table(
    warehouse: WarehouseName,
    table: str,
    metadata_location: str,
    /,
    *,
    overwrite: Flag = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Register a table by its metadata file.

    Parameters
    ----------
    table
        NAMESPACE.TABLE, with dots between levels. The namespace must exist.
    metadata_location
        URI of the metadata file.
    overwrite
        Replace the metadata of a table that has this name.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import RegisterTable

    named = content_commands.parsed_tabular("table", table)
    command = RegisterTable(named.namespace, named.name, metadata_location, overwrite)
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), command)


@table.command(name="unregister")
def unregister_table(
    warehouse: WarehouseName,
    table: str,
    /,
    *,
    force: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Remove a table from the catalog and print the location of its metadata file. Its files stay, and it cannot be undropped.

    Parameters
    ----------
    table
        NAMESPACE.TABLE, with dots between levels.
    force
        Unregister it even if it is protected.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import UnregisterTable

    command = UnregisterTable(content_commands.parsed_tabular("table", table), force)
    return tabular_commands.unregister(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@table.command(name="protect")
def protect_table(
    table: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()
) -> ExitCode:
    """Protect a table: it can be dropped and unregistered only with --force (force=true over HTTP), which engines do not send.

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
