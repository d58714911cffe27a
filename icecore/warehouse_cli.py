"""The commands `icecore warehouse …`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from .command_settings import Flag, Json, JsonArgument, ProtectionOff, Texts, WarehouseName, WarehouseOptions
from .exit_codes import CommandFailed, ExitCode
from .output import Output

if TYPE_CHECKING:
    from .warehouse_commands import WarehouseCommand

warehouse = App(name="warehouse", help="Create, list, change and delete warehouses.")


@warehouse.command(name="create")
def create_warehouse(
    name: str,
    /,
    *,
    profile: JsonArgument,
    credential: JsonArgument | None = None,
    exact_names: Flag = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Create a warehouse and print its id.

    Parameters
    ----------
    name
        Name of the warehouse, or PROJECT/NAME.
    profile
        Storage profile as JSON, @FILE, or - for standard input: '{"type": "local", "directory": "/data/lake"}'.
    credential
        Storage credential as JSON, @FILE, or - for standard input. It is stored encrypted and never shown.
    exact_names
        Make names of namespaces, tables and views case-sensitive.
    """
    from . import operator_commands
    from .commands.warehouses.create_warehouse import CreateWarehouse

    name, options = _split(name, options)
    command = CreateWarehouse(
        name=name,
        storage_profile=operator_commands.json_argument(profile, "--profile"),
        storage_credential=None if credential is None else operator_commands.json_argument(credential, "--credential"),
        exact_names=exact_names,
    )
    return operator_commands.make_warehouse(options.settings(), Output(), command, options.project)


def _split(name: str, options: WarehouseOptions) -> tuple[str, WarehouseOptions]:
    """The name of a new warehouse, and the options with the project that it names as PROJECT/NAME."""
    project, slash, own_name = name.rpartition("/")
    return (own_name, replace(options, project=project)) if slash and options.project is None else (name, options)


@warehouse.command(name="list")
def list_warehouses(
    *,
    as_json: Annotated[Json, Parameter(help="Print JSON, with the storage profiles.")] = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """List the warehouses of the default project, or of the one that `--project` names."""
    from . import operator_commands

    return operator_commands.list_warehouses(options.settings(), Output(), options.project, as_json=as_json)


@warehouse.command(name="get")
def get_warehouse(warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Print a warehouse with its settings. The credential is never shown."""
    from . import warehouse_commands

    return warehouse_commands.print_settings(options.settings(), Output(), options.in_project(warehouse), as_json=as_json)


@warehouse.command(name="config")
def warehouse_config(
    warehouse: WarehouseName,
    /,
    *,
    default: Texts = None,
    override: Texts = None,
    unset_default: Texts = None,
    unset_override: Texts = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Change the defaults and overrides that clients of a warehouse receive, then print them. Without changes, only print them.

    Options may be repeated.

    Parameters
    ----------
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
    from .domain.warehouse_config import UpdateWarehouseConfig

    command = UpdateWarehouseConfig(
        defaults=PropertyUpdate(unset_default or (), operator_commands.properties_argument(default or (), "--default")),
        overrides=PropertyUpdate(unset_override or (), operator_commands.properties_argument(override or (), "--override")),
    )
    return operator_commands.configure_warehouse(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@warehouse.command(name="rename")
def rename_warehouse(
    warehouse: WarehouseName, new_name: str, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Rename a warehouse. Running clients keep working, because they use its prefix. The old name stops working at once.

    Parameters
    ----------
    new_name
        New name of the warehouse.
    """
    from .domain.warehouse import RenameWarehouse

    return _change(warehouse, RenameWarehouse(new_name), options, as_json=as_json)


@warehouse.command(name="deactivate")
def deactivate_warehouse(warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Deactivate a warehouse. Iceberg clients get 404 for it until it is activated."""
    from .domain.warehouse import SetWarehouseStatus

    return _change(warehouse, SetWarehouseStatus(active=False), options, as_json=as_json)


@warehouse.command(name="activate")
def activate_warehouse(warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Activate an inactive warehouse."""
    from .domain.warehouse import SetWarehouseStatus

    return _change(warehouse, SetWarehouseStatus(active=True), options, as_json=as_json)


@warehouse.command(name="protect")
def protect_warehouse(
    warehouse: WarehouseName,
    /,
    *,
    off: ProtectionOff = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Protect a warehouse: it can then be deleted only with --force."""
    from .domain.warehouse import SetWarehouseProtection

    return _change(warehouse, SetWarehouseProtection(not off), options, as_json=as_json)


@warehouse.command(name="read-only")
def set_read_only(
    warehouse: WarehouseName,
    /,
    *,
    off: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Make a warehouse read-only: changes in it are refused, and none of its files are deleted.

    Parameters
    ----------
    off
        Allow changes again.
    """
    from .domain.warehouse import SetWarehouseReadOnly

    return _change(warehouse, SetWarehouseReadOnly(not off), options, as_json=as_json)


@warehouse.command(name="delete-profile")
def set_delete_profile(
    warehouse: WarehouseName,
    /,
    *,
    hard: Flag = False,
    soft: str | None = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Set whether tables and views that are dropped from now on can be undropped (--soft) or are dropped for good (--hard).

    Parameters
    ----------
    hard
        Drop tables and views for good (the default).
    soft
        How long a dropped table or view can be undropped: a whole number with d, h, m or s, such as 7d.
    """
    from .domain.warehouse import DeleteProfile, UpdateWarehouseDeleteProfile
    from .durations import seconds_argument

    if hard == (soft is not None):
        raise CommandFailed(ExitCode.USAGE, "give either --hard or --soft")
    profile = DeleteProfile(None if soft is None else seconds_argument(soft, "--soft"))
    return _change(warehouse, UpdateWarehouseDeleteProfile(profile), options, as_json=as_json)


@warehouse.command(name="purge-default")
def set_purge_default(
    warehouse: WarehouseName, /, *, off: Flag = False, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()
) -> ExitCode:
    """Set the purge default of a warehouse: drops that do not set purgeRequested will delete the table's files.

    Parameters
    ----------
    off
        Such drops keep the files (the default).
    """
    from .domain.warehouse import SetWarehousePurgeDefault

    return _change(warehouse, SetWarehousePurgeDefault(not off), options, as_json=as_json)


@warehouse.command(name="format-versions")
def limit_format_versions(
    warehouse: WarehouseName,
    /,
    *,
    allow: Annotated[list[int], Parameter(negative=())],
    default: int | None = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Set the format versions that are allowed for new, registered and upgraded tables. Existing tables keep theirs.

    Parameters
    ----------
    allow
        Format version that is allowed: 1, 2 or 3. May be repeated.
    default
        Format version for requests that do not specify one. Default: 2 if it is allowed, else the highest allowed.
    """
    from .domain.warehouse import FormatVersionPolicy, UpdateWarehouseFormatVersionPolicy

    command = UpdateWarehouseFormatVersionPolicy(FormatVersionPolicy(tuple(allow), default))
    return _change(warehouse, command, options, as_json=as_json)


@warehouse.command(name="storage")
def update_storage(
    warehouse: WarehouseName,
    /,
    *,
    profile: JsonArgument,
    credential: JsonArgument | None = None,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Change the storage profile of a warehouse. A profile that would change the location of existing files is refused.

    Parameters
    ----------
    profile
        The complete new storage profile as JSON, @FILE, or - for standard input.
    credential
        Storage credential as JSON, @FILE, or - for standard input. Without this option, the warehouse has none afterwards: the old
        credential is removed in any case.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.update_storage import UpdateStorageProfile

    command = UpdateStorageProfile(
        operator_commands.json_argument(profile, "--profile"),
        None if credential is None else operator_commands.json_argument(credential, "--credential"),
    )
    return storage_commands.update_storage(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@warehouse.command(name="credential")
def update_credential(
    warehouse: WarehouseName,
    /,
    *,
    credential: JsonArgument,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Replace the storage credential of a warehouse. The former one is destroyed.

    Parameters
    ----------
    credential
        Storage credential as JSON, @FILE, or - for standard input; null removes the credential.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.update_storage import UpdateStorageCredential

    command = UpdateStorageCredential(operator_commands.json_argument(credential, "--credential"))
    return storage_commands.update_storage(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


@warehouse.command(name="validate")
def validate_warehouse(
    warehouse: WarehouseName,
    /,
    *,
    profile: JsonArgument | None = None,
    credential: JsonArgument | None = None,
    new: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Check a warehouse's storage, a change to it (--profile, --credential), or the creation of a warehouse (--new).

    Nothing is changed. The exit code is 1 if a check fails.

    Parameters
    ----------
    profile
        Check a change to this storage profile: JSON, @FILE, or - for standard input.
    credential
        Check a change to this storage credential, alone or together with --profile: JSON, @FILE, or - for standard input.
    new
        Check the creation of a warehouse with this name and profile.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.create_warehouse import CreateWarehouse
    from .commands.warehouses.update_storage import StorageUpdate, UpdateStorageCredential, UpdateStorageProfile

    storage_credential = None if credential is None else operator_commands.json_argument(credential, "--credential")
    if not new:
        change: StorageUpdate | None = None
        if profile is not None:
            change = UpdateStorageProfile(operator_commands.json_argument(profile, "--profile"), storage_credential)
        elif credential is not None:
            change = UpdateStorageCredential(storage_credential)
        return storage_commands.validate_storage(options.settings(), Output(), options.in_project(warehouse), change, as_json=as_json)
    if profile is None:
        raise CommandFailed(ExitCode.USAGE, "--new needs --profile")
    warehouse, options = _split(warehouse, options)
    command = CreateWarehouse(warehouse, operator_commands.json_argument(profile, "--profile"), storage_credential)
    return storage_commands.validate_creation(options.settings(), Output(), command, options.project, as_json=as_json)


@warehouse.command(name="delete")
def delete_warehouse(
    warehouse: WarehouseName,
    /,
    *,
    force: Flag = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Delete an empty warehouse. Its files stay, and its credential is destroyed.

    Parameters
    ----------
    force
        Delete it even if it is protected.
    """
    from .domain.warehouse import DeleteWarehouse

    return _change(warehouse, DeleteWarehouse(force), options, as_json=False)


def _change(warehouse: str, command: "WarehouseCommand", options: WarehouseOptions, *, as_json: bool) -> ExitCode:
    from . import warehouse_commands

    return warehouse_commands.change_warehouse(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)
