"""The commands `icecore undrop`, `icecore table …` and those of `icecore warehouse` about deletion."""

from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from .command_settings import Config, Data, Json, command_settings
from .exit_codes import ExitCode
from .object_cli import table
from .output import Output
from .warehouse_cli import warehouse


@table.command(name="deleted")
def list_deleted(name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """List the soft-deleted tables and views of a warehouse, with their ids and when they expire.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    """
    from . import deletion_commands

    return deletion_commands.list_deleted(command_settings(config, data), Output(), name, as_json=as_json)


def undrop(
    name: str,
    ids: Annotated[list[UUID], Parameter(negative=())],
    /,
    *,
    force: Annotated[bool, Parameter(negative=())] = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Undrop soft-deleted tables and views, all or none.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    ids
        Ids of the tables and views. `icecore table deleted` shows them.
    force
        Undrop them even if their metadata file or manifest list is missing.
    """
    from . import deletion_commands

    return deletion_commands.undrop(command_settings(config, data), name, ids, force=force)


@warehouse.command(name="delete-profile")
def set_delete_profile(
    name: str,
    /,
    *,
    hard: Annotated[bool, Parameter(negative=())] = False,
    soft: str | None = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Set what a later drop of a table or view does: --hard or --soft.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    hard
        A drop is final at once.
    soft
        How long what is dropped can be undropped: a whole number with d, h, m or s, such as 7d.
    """
    from . import operator_commands
    from .domain.warehouse import DeleteProfile, UpdateWarehouseDeleteProfile
    from .durations import seconds_argument
    from .exit_codes import CommandFailed

    if hard == (soft is not None):
        raise CommandFailed(ExitCode.USAGE, "give either --hard or --soft")
    profile = DeleteProfile(None if soft is None else seconds_argument(soft, "--soft"))
    command = UpdateWarehouseDeleteProfile(profile)
    return operator_commands.change_warehouse(command_settings(config, data), Output(), name, command, as_json=as_json)


@warehouse.command(name="purge-default")
def set_purge_default(
    name: str,
    /,
    *,
    off: Annotated[bool, Parameter(negative=())] = False,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Delete the files of a table whose drop does not say whether to do so. Such files stay in a new warehouse.

    Parameters
    ----------
    name
        Name or id of the warehouse.
    off
        Keep these files.
    """
    from . import operator_commands
    from .domain.warehouse import SetWarehousePurgeDefault

    settings = command_settings(config, data)
    return operator_commands.change_warehouse(settings, Output(), name, SetWarehousePurgeDefault(not off), as_json=as_json)
