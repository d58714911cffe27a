"""The commands `icecore namespace …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import CommonOptions, Flag, Json, ProtectionOff, Texts, WarehouseName, WarehouseOptions
from .exit_codes import CommandFailed, ExitCode
from .output import Output

namespace = App(name="namespace", help="List, print, create, change, protect, move and drop namespaces, and list soft-deleted ones.")


@namespace.command(name="create")
def create_namespace(
    warehouse: WarehouseName,
    namespace: str,
    /,
    *,
    properties: Annotated[Texts, Parameter(name="--property")] = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Create a namespace and print it with its location. Its parent namespace must exist.

    Parameters
    ----------
    namespace
        The whole path of the namespace, with dots between levels.
    properties
        KEY=VALUE of a property, such as location=URI. May be repeated.
    """
    from . import namespace_commands, operator_commands
    from .domain.commands import CreateNamespace
    from .domain.identifiers import NamespaceIdentifier

    path = NamespaceIdentifier.parse(namespace.split("."))
    command = CreateNamespace(path, operator_commands.properties_argument(properties or (), "--property"))
    return namespace_commands.make_namespace(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@namespace.command(name="list")
def list_namespaces(
    warehouse: WarehouseName,
    /,
    *,
    parent: str | None = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """List the namespaces at the top level of a warehouse, or directly in another namespace.

    Parameters
    ----------
    parent
        List the namespaces in this one, with dots between levels.
    """
    from . import content_commands

    return content_commands.list_objects(options.settings(), Output(), "namespace", options.in_project(warehouse), parent, as_json=as_json)


@namespace.command(name="get")
def get_namespace(
    warehouse: WarehouseName, namespace: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Print a namespace with its properties and its protection.

    Parameters
    ----------
    namespace
        The namespace, with dots between levels, or its id.
    """
    from . import content_commands

    return content_commands.print_object(
        options.settings(), Output(), "namespace", options.in_project(warehouse), namespace, as_json=as_json
    )


@namespace.command(name="properties")
def namespace_properties(
    warehouse: WarehouseName,
    namespace: str,
    /,
    *,
    set_: Annotated[Texts, Parameter(name="--set")] = None,
    unset: Texts = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Change the properties of a namespace, then print them. Without changes, only print them.

    Options may be repeated.

    Parameters
    ----------
    namespace
        The namespace, with dots between levels.
    set_
        KEY=VALUE of a property to set.
    unset
        Key of a property to remove.
    """
    from . import namespace_commands, operator_commands
    from .domain.commands import UpdateNamespaceProperties
    from .domain.identifiers import NamespaceIdentifier

    updates = operator_commands.properties_argument(set_ or (), "--set")
    command = UpdateNamespaceProperties(NamespaceIdentifier.parse(namespace.split(".")), unset or (), updates)
    return namespace_commands.change_properties(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@namespace.command(name="protect")
def protect_namespace(
    namespace: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()
) -> ExitCode:
    """Protect a namespace: it can be dropped, moved or renamed only with --force (force=true over HTTP), which engines do not send.

    What it contains is not protected.

    Parameters
    ----------
    namespace
        [WAREHOUSE:]NAMESPACE, with dots between levels, or the namespace's id in place of its name.
    """
    from . import object_commands

    return object_commands.protect(options.settings(), Output(), "namespace", namespace, protected=not off, as_json=as_json)


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
    """Move a namespace with all that it contains, or rename it. Its old path stops working at once. Files stay where they are.

    Parameters
    ----------
    source
        The namespace, with dots between levels, or its id.
    destination
        The whole new path of the namespace, with dots between levels. Its parent must exist.
    force
        Move it even if it is protected.
    """
    from . import object_commands

    return object_commands.move_namespace(
        options.settings(), Output(), options.in_project(warehouse), source, destination, force=force, as_json=as_json
    )


@namespace.command(name="drop")
def drop_namespace(
    warehouse: WarehouseName,
    namespace: str,
    /,
    *,
    recursive: Flag = False,
    dry_run: Flag = False,
    purge: Annotated[bool | None, Parameter(negative="--no-purge")] = None,
    force: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Drop a namespace. It must be empty, unless --recursive is given.

    Parameters
    ----------
    namespace
        The namespace, with dots between levels.
    recursive
        Drop it with all that it contains, all or none.
    dry_run
        Only show what a recursive drop would do.
    purge
        Whether a recursive drop deletes the files of the tables. Default: the warehouse's purge default.
    force
        Drop it even if it, or something in it, is protected. A recursive drop is then final: nothing can be undropped.
    """
    from . import namespace_commands
    from .domain.commands import DropNamespace
    from .domain.identifiers import NamespaceIdentifier

    if not recursive and (dry_run or purge is not None):
        raise CommandFailed(ExitCode.USAGE, "--dry-run and --purge need --recursive")
    command = DropNamespace(NamespaceIdentifier.parse(namespace.split(".")), force, recursive, purge)
    if dry_run:
        return namespace_commands.print_plan(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)
    return namespace_commands.drop_namespace(options.settings(), options.in_project(warehouse), command)


@namespace.command(name="deleted")
def list_deleted_namespaces(
    warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """List the soft-deleted namespaces of a warehouse that can be undropped, with their ids and when they expire."""
    from . import namespace_commands

    return namespace_commands.list_deleted_namespaces(options.settings(), Output(), options.in_project(warehouse), as_json=as_json)
