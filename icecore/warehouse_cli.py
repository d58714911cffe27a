"""The commands `icecore warehouse …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import Config, Data, Json, command_settings
from .exit_codes import ExitCode
from .output import Output

Texts = Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)]

warehouse = App(name="warehouse", help="Create, list and configure warehouses.")


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
