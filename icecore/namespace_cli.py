"""The commands `icecore namespace …`."""

from cyclopts import App

from .command_settings import CommonOptions, Flag, Json, ProtectionOff, WarehouseName, WarehouseOptions
from .exit_codes import ExitCode
from .output import Output

namespace = App(name="namespace", help="Protect and move namespaces.")


@namespace.command(name="protect")
def protect_namespace(
    name: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()
) -> ExitCode:
    """Protect a namespace: it is dropped only with force=true, which engines do not send. What it contains is not protected.

    Parameters
    ----------
    name
        [WAREHOUSE:]NAMESPACE, with dots between levels, or the namespace's id in place of its name.
    """
    from . import object_commands

    return object_commands.protect(options.settings(), Output(), "namespace", name, protected=not off, as_json=as_json)


@namespace.command(name="move")
def move_namespace(
    warehouse: WarehouseName,
    source: str,
    destination: str,
    /,
    *,
    force: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Move a namespace with all that it contains, or rename it. Its former path stops working at once; files stay where they are.

    Parameters
    ----------
    source
        The namespace, with dots between levels, or its id.
    destination
        Its whole new path, with dots between levels. The namespace above must exist.
    force
        Move it even if it is protected.
    """
    from . import object_commands

    return object_commands.move_namespace(
        options.settings(), Output(), options.in_project(warehouse), source, destination, force=force, as_json=as_json
    )
