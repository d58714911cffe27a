"""The commands `icecore warehouse …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import Config, Data, Json, command_settings
from .exit_codes import ExitCode
from .output import Output

Texts = Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)]

warehouse = App(name="warehouse", help="Create, list, change and delete warehouses.")


@warehouse.command(name="create")
def create_warehouse(
    name: str,
    /,
    *,
    profile: Annotated[str, Parameter(allow_leading_hyphen=True)],
    credential: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    exact_names: Annotated[bool, Parameter(negative=())] = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Create a warehouse and print its id.

    Parameters
    ----------
    name
        Name of the warehouse.
    profile
        Storage profile as JSON, @FILE, or - for standard input: '{"type": "local", "directory": "/data/lake"}'.
    credential
        Storage credential as JSON, @FILE, or - for standard input. It is stored encrypted and never shown.
    exact_names
        Make names of namespaces, tables and views case-sensitive.
    """
    from . import operator_commands
    from .commands.warehouses.create_warehouse import CreateWarehouse

    command = CreateWarehouse(
        name=name,
        storage_profile=operator_commands.json_argument(profile, "--profile"),
        storage_credential=None if credential is None else operator_commands.json_argument(credential, "--credential"),
        exact_names=exact_names,
    )
    return operator_commands.make_warehouse(command_settings(config, data), Output(), command)


@warehouse.command(name="list")
def list_warehouses(
    *, as_json: Annotated[Json, Parameter(help="Print JSON, with the storage profiles.")] = False, data: Data = None, config: Config = None
) -> ExitCode:
    """List the warehouses."""
    from . import operator_commands

    return operator_commands.list_warehouses(command_settings(config, data), Output(), as_json=as_json)


@warehouse.command(name="config")
def warehouse_config(
    name: str,
    /,
    *,
    default: Texts = None,
    override: Texts = None,
    unset_default: Texts = None,
    unset_override: Texts = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Change the defaults and overrides that clients of a warehouse receive, then print them. Without changes, only print them.

    Options may be repeated.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    default
        KEY=VALUE that clients use unless they are configured otherwise.
    override
        KEY=VALUE that clients use in place of their own.
    unset_default
        Key of a default to remove.
    unset_override
        Key of an override to remove.
    """
    from . import operator_commands
    from .domain.properties import PropertyUpdate
    from .domain.warehouse import UpdateWarehouseConfig

    command = UpdateWarehouseConfig(
        defaults=PropertyUpdate(unset_default or (), operator_commands.properties_argument(default or (), "--default")),
        overrides=PropertyUpdate(unset_override or (), operator_commands.properties_argument(override or (), "--override")),
    )
    return operator_commands.configure_warehouse(command_settings(config, data), Output(), name, command, as_json=as_json)


@warehouse.command(name="rename")
def rename_warehouse(name: str, new_name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Rename a warehouse. Clients that use it go on.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    new_name
        New name of the warehouse.
    """
    from . import operator_commands
    from .domain.warehouse import RenameWarehouse

    settings = command_settings(config, data)
    return operator_commands.change_warehouse(settings, Output(), name, RenameWarehouse(new_name), as_json=as_json)


@warehouse.command(name="deactivate")
def deactivate_warehouse(name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Deactivate a warehouse: to clients it does not exist until it is activated.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    """
    return _set_status(name, active=False, as_json=as_json, data=data, config=config)


@warehouse.command(name="activate")
def activate_warehouse(name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Activate an inactive warehouse.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    """
    return _set_status(name, active=True, as_json=as_json, data=data, config=config)


@warehouse.command(name="protect")
def protect_warehouse(
    name: str,
    /,
    *,
    off: Annotated[bool, Parameter(negative=())] = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Protect a warehouse: `delete` then needs --force.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    off
        Remove the protection.
    """
    from . import operator_commands
    from .domain.warehouse import SetWarehouseProtection

    settings = command_settings(config, data)
    return operator_commands.change_warehouse(settings, Output(), name, SetWarehouseProtection(not off), as_json=as_json)


@warehouse.command(name="format-versions")
def limit_format_versions(
    name: str,
    /,
    *,
    allow: Annotated[list[int], Parameter(negative=())],
    default: int | None = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Set the format versions that are allowed for new, registered and upgraded tables. Existing tables keep theirs.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    allow
        Format version that is allowed: 1, 2 or 3. May be repeated.
    default
        Format version of a table whose request names none; without it 2 if it is allowed, else the highest.
    """
    from . import operator_commands
    from .domain.warehouse import FormatVersionPolicy, UpdateWarehouseFormatVersionPolicy

    command = UpdateWarehouseFormatVersionPolicy(FormatVersionPolicy(tuple(allow), default))
    return operator_commands.change_warehouse(command_settings(config, data), Output(), name, command, as_json=as_json)


@warehouse.command(name="delete")
def delete_warehouse(
    name: str, /, *, force: Annotated[bool, Parameter(negative=())] = False, data: Data = None, config: Config = None
) -> ExitCode:
    """Delete an empty warehouse. Its files stay, its credential is destroyed.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    force
        Delete it even if it is protected.
    """
    from . import operator_commands
    from .domain.warehouse import DeleteWarehouse

    settings = command_settings(config, data)
    return operator_commands.change_warehouse(settings, Output(), name, DeleteWarehouse(force), as_json=False)


def _set_status(name: str, *, active: bool, as_json: bool, data: Data, config: Config) -> ExitCode:
    from . import operator_commands
    from .domain.warehouse import SetWarehouseStatus

    return operator_commands.change_warehouse(command_settings(config, data), Output(), name, SetWarehouseStatus(active), as_json=as_json)
