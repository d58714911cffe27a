"""The commands `icecore warehouse …`."""

from typing import Annotated

from cyclopts import App, Parameter

from .command_settings import Config, Data, Json, Project, command_settings, in_project
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
    project: Project = None,
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
    return operator_commands.make_warehouse(command_settings(config, data), Output(), command, project)


@warehouse.command(name="list")
def list_warehouses(
    *,
    as_json: Annotated[Json, Parameter(help="Print JSON, with the storage profiles.")] = False,
    project: Project = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """List the warehouses."""
    from . import operator_commands

    return operator_commands.list_warehouses(command_settings(config, data), Output(), project, as_json=as_json)


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
    project: Project = None,
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
    return operator_commands.configure_warehouse(
        command_settings(config, data), Output(), in_project(project, name), command, as_json=as_json
    )


@warehouse.command(name="rename")
def rename_warehouse(
    name: str, new_name: str, /, *, as_json: Json = False, project: Project = None, data: Data = None, config: Config = None
) -> ExitCode:
    """Rename a warehouse. Running clients that use its prefix keep working, and the old name stops working at once.

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
    return operator_commands.change_warehouse(settings, Output(), in_project(project, name), RenameWarehouse(new_name), as_json=as_json)


@warehouse.command(name="deactivate")
def deactivate_warehouse(
    name: str, /, *, as_json: Json = False, project: Project = None, data: Data = None, config: Config = None
) -> ExitCode:
    """Deactivate a warehouse. Iceberg clients get 404 for it until it is activated.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    """
    return _set_status(name, active=False, as_json=as_json, project=project, data=data, config=config)


@warehouse.command(name="activate")
def activate_warehouse(
    name: str, /, *, as_json: Json = False, project: Project = None, data: Data = None, config: Config = None
) -> ExitCode:
    """Activate an inactive warehouse.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    """
    return _set_status(name, active=True, as_json=as_json, project=project, data=data, config=config)


@warehouse.command(name="protect")
def protect_warehouse(
    name: str,
    /,
    *,
    off: Annotated[bool, Parameter(negative=())] = False,
    as_json: Json = False,
    project: Project = None,
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
    return operator_commands.change_warehouse(
        settings, Output(), in_project(project, name), SetWarehouseProtection(not off), as_json=as_json
    )


@warehouse.command(name="read-only")
def set_read_only(
    name: str,
    /,
    *,
    off: Annotated[bool, Parameter(negative=())] = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Make a warehouse read-only for maintenance: changes in it are refused, and none of its files are deleted.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    off
        End the maintenance.
    """
    from . import operator_commands
    from .domain.warehouse import SetWarehouseReadOnly

    settings = command_settings(config, data)
    return operator_commands.change_warehouse(settings, Output(), name, SetWarehouseReadOnly(not off), as_json=as_json)


@warehouse.command(name="format-versions")
def limit_format_versions(
    name: str,
    /,
    *,
    allow: Annotated[list[int], Parameter(negative=())],
    default: int | None = None,
    as_json: Json = False,
    project: Project = None,
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
        Format version for requests that name none. Default: 2 if it is allowed, else the highest allowed.
    """
    from . import operator_commands
    from .domain.warehouse import FormatVersionPolicy, UpdateWarehouseFormatVersionPolicy

    command = UpdateWarehouseFormatVersionPolicy(FormatVersionPolicy(tuple(allow), default))
    return operator_commands.change_warehouse(command_settings(config, data), Output(), in_project(project, name), command, as_json=as_json)


@warehouse.command(name="storage")
def update_storage(
    name: str,
    /,
    *,
    profile: Annotated[str, Parameter(allow_leading_hyphen=True)],
    credential: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    as_json: Json = False,
    project: Project = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Change the storage profile of a warehouse. Its files must stay where they are.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    profile
        Whole new storage profile as JSON, @FILE, or - for standard input.
    credential
        Storage credential as JSON, @FILE, or - for standard input. The former one is not kept.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.update_storage import UpdateStorageProfile

    command = UpdateStorageProfile(
        operator_commands.json_argument(profile, "--profile"),
        None if credential is None else operator_commands.json_argument(credential, "--credential"),
    )
    return storage_commands.update_storage(command_settings(config, data), Output(), in_project(project, name), command, as_json=as_json)


@warehouse.command(name="credential")
def update_credential(
    name: str,
    /,
    *,
    credential: Annotated[str, Parameter(allow_leading_hyphen=True)],
    as_json: Json = False,
    project: Project = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Replace the storage credential of a warehouse. The former one is destroyed.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    credential
        Storage credential as JSON, @FILE, or - for standard input; null removes the credential.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.update_storage import UpdateStorageCredential

    command = UpdateStorageCredential(operator_commands.json_argument(credential, "--credential"))
    return storage_commands.update_storage(command_settings(config, data), Output(), in_project(project, name), command, as_json=as_json)


@warehouse.command(name="validate")
def validate_warehouse(
    name: str,
    /,
    *,
    profile: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    credential: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    new: Annotated[bool, Parameter(negative=())] = False,
    as_json: Json = False,
    project: Project = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Make the checks of a creation or a change of storage, and change nothing. The exit code is 1 if one fails.

    Without profile and credential, the storage that the warehouse has is checked.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    profile
        Storage profile as JSON, @FILE, or - for standard input, with which `storage` would be called.
    credential
        Storage credential as JSON, @FILE, or - for standard input; alone, with which `credential` would be called.
    new
        Check the creation of a warehouse with this name and profile.
    """
    from . import operator_commands, storage_commands

    return storage_commands.validate_storage(
        command_settings(config, data),
        Output(),
        name,
        None if profile is None else operator_commands.json_argument(profile, "--profile"),
        None if credential is None else operator_commands.json_argument(credential, "--credential"),
        project=project,
        new=new,
        as_json=as_json,
    )


@warehouse.command(name="delete")
def delete_warehouse(
    name: str,
    /,
    *,
    force: Annotated[bool, Parameter(negative=())] = False,
    project: Project = None,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Delete an empty warehouse. Its files stay, and its credential is destroyed.

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
    return operator_commands.change_warehouse(settings, Output(), in_project(project, name), DeleteWarehouse(force), as_json=False)


def _set_status(name: str, *, active: bool, as_json: bool, project: Project, data: Data, config: Config) -> ExitCode:
    from . import operator_commands
    from .domain.warehouse import SetWarehouseStatus

    return operator_commands.change_warehouse(
        command_settings(config, data), Output(), in_project(project, name), SetWarehouseStatus(active), as_json=as_json
    )
