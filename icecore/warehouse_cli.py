"""The commands `icecore warehouse …`."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from .command_settings import Flag, Json, JsonArgument, ProtectionOff, Texts, WarehouseName, WarehouseOptions
from .exit_codes import CommandFailed, ExitCode
from .output import Output
from .warehouse_storage_cli import update_credential, update_storage, validate_warehouse

if TYPE_CHECKING:
    from .warehouse_commands import WarehouseCommand

warehouse = App(name="warehouse", help="Create, list, change and delete warehouses.")
warehouse.command(update_storage, name="storage")
warehouse.command(update_credential, name="credential")
warehouse.command(validate_warehouse, name="validate")


@warehouse.command(name="create")
def create_warehouse(
    name: str,
    /,
    *,
    profile: JsonArgument,
    credential: JsonArgument | None = None,
    exact_names: Flag = False,
    soft: str | None = None,
    purge_default: Flag = False,
    allow: Annotated[list[int] | None, Parameter(negative=())] = None,
    default: int | None = None,
    as_json: Annotated[Json, Parameter(help="Print the whole warehouse as JSON.")] = False,
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
    soft
        How long a dropped table or view can be undropped: a whole number with d, h, m or s, such as 7d. Default: drops are final.
    purge_default
        Drops that do not set purgeRequested will delete the table's files.
    allow
        Format version that is allowed: 1, 2 or 3. May be repeated. Default: all.
    default
        Format version for requests that do not specify one. Default: 2 if it is allowed, else the highest allowed.
    """
    from . import operator_commands
    from .commands.warehouses.create_warehouse import CreateWarehouse
    from .domain.format_versions import FORMAT_VERSIONS
    from .domain.warehouse import DeleteProfile, FormatVersionPolicy
    from .durations import seconds_argument

    name, options = options.of_new(name)
    command = CreateWarehouse(
        name=name,
        storage_profile=operator_commands.profile_argument(profile),
        storage_credential=None if credential is None else operator_commands.json_argument(credential, "--credential"),
        exact_names=exact_names,
        format_versions=FormatVersionPolicy(FORMAT_VERSIONS if allow is None else tuple(allow), default),
        delete_profile=DeleteProfile(None if soft is None else seconds_argument(soft, "--soft")),
        purge_default=purge_default,
    )
    return operator_commands.make_warehouse(options.settings(), Output(), command, options.project, as_json=as_json)


@warehouse.command(name="list")
def list_warehouses(
    *,
    status: Literal["active", "inactive"] | None = None,
    as_json: Annotated[Json, Parameter(help="Print JSON, with the storage profiles and other settings.")] = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """List the warehouses of the default project, or of the one that `--project` names.

    Parameters
    ----------
    status
        Only warehouses with this status: active or inactive.
    """
    from . import operator_commands

    statuses = ("active", "inactive") if status is None else (status,)
    return operator_commands.list_warehouses(options.settings(), Output(), options.project, statuses, as_json=as_json)


@warehouse.command(name="get")
def get_warehouse(warehouse: WarehouseName, /, *, as_json: Json = False, options: WarehouseOptions = WarehouseOptions()) -> ExitCode:
    """Print a warehouse with its settings. The credential is never shown."""
    from . import warehouse_commands

    return warehouse_commands.print_settings(options.settings(), Output(), options.in_project(warehouse), as_json=as_json)


@warehouse.command(name="statistics")
def warehouse_statistics(
    warehouse: WarehouseName,
    /,
    *,
    limit: int = 24,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Print the number of tables, views and namespaces of a warehouse at the end of each hour with events, and of its commits in that hour.

    The newest hour comes first.

    Parameters
    ----------
    limit
        Print at most this number of hours.
    """
    from . import warehouse_commands

    if limit < 1:
        raise CommandFailed(ExitCode.USAGE, "--limit must be a positive whole number")
    return warehouse_commands.print_statistics(options.settings(), Output(), options.in_project(warehouse), limit, as_json=as_json)


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
    """Rename a warehouse. Clients that have its prefix keep working. The old name stops working at once.

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
