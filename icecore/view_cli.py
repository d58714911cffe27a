"""The commands `icecore view …`."""

from cyclopts import App

from .command_settings import CommonOptions, Flag, Json, ProtectionOff, WarehouseName, WarehouseOptions
from .exit_codes import ExitCode
from .output import Output

view = App(name="view", help="List, print, register, rename, protect and drop views.")


@view.command(name="list")
def list_views(
    warehouse: WarehouseName, namespace: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """List the views directly in a namespace.

    Parameters
    ----------
    namespace
        The namespace, with dots between levels.
    """
    from . import content_commands

    return content_commands.list_objects(options.settings(), Output(), "view", options.in_project(warehouse), namespace, as_json=as_json)


@view.command(name="get")
def get_view(warehouse: WarehouseName, view: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Print the location, SQL, columns, properties and protection of a view. With --json, print all of its metadata.

    Parameters
    ----------
    view
        NAMESPACE.VIEW, with dots between levels, or the view's id.
    """
    from . import content_commands

    return content_commands.print_object(options.settings(), Output(), "view", options.in_project(warehouse), view, as_json=as_json)


@view.command(name="rename")
def rename_view(warehouse: WarehouseName, source: str, destination: str, /, *, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Rename a view, or move it to another namespace of the warehouse. Its files stay where they are.

    Parameters
    ----------
    source
        The view: NAMESPACE.VIEW, with dots between levels.
    destination
        Its new path: NAMESPACE.VIEW. The namespace must exist.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import RenameView

    names = [content_commands.parsed_tabular("view", each) for each in (source, destination)]
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), RenameView(*names))


@view.command(name="drop")
def drop_view(warehouse: WarehouseName, view: str, /, *, force: Flag = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Drop a view. In a soft-deleting warehouse it can be undropped until it expires. Its metadata files stay.

    Parameters
    ----------
    view
        NAMESPACE.VIEW, with dots between levels.
    force
        Drop it even if it is protected. The drop is then final: it cannot be undropped.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import DropView

    command = DropView(content_commands.parsed_tabular("view", view), force)
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), command)


@view.command(name="register")
def register_view(
    warehouse: WarehouseName, view: str, metadata_location: str, /, *, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Register a view by its metadata file.

    Parameters
    ----------
    view
        NAMESPACE.VIEW, with dots between levels. The namespace must exist.
    metadata_location
        URI of the metadata file.
    """
    from . import content_commands, tabular_commands
    from .domain.commands import RegisterView

    named = content_commands.parsed_tabular("view", view)
    command = RegisterView(named.namespace, named.name, metadata_location)
    return tabular_commands.change_tabular(options.settings(), options.in_project(warehouse), command)


@view.command(name="protect")
def protect_view(view: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Protect a view: it can be dropped only with --force (force=true over HTTP), which engines do not send.

    Parameters
    ----------
    view
        [WAREHOUSE:]NAMESPACE.VIEW, or the view's id in place of its name.
    """
    from . import object_commands

    return object_commands.protect(options.settings(), Output(), "view", view, protected=not off, as_json=as_json)
