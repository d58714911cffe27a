"""The commands `icecore warehouse storage`, `credential` and `validate`."""

from .command_settings import Flag, Json, JsonArgument, WarehouseName, WarehouseOptions
from .exit_codes import CommandFailed, ExitCode
from .output import Output


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
        operator_commands.profile_argument(profile),
        None if credential is None else operator_commands.json_argument(credential, "--credential"),
    )
    return storage_commands.update_storage(options.settings(), Output(), options.in_project(warehouse), command, as_json=as_json)


def update_credential(
    warehouse: WarehouseName,
    /,
    *,
    credential: JsonArgument,
    key_lost: Flag = False,
    as_json: Json = False,
    options: WarehouseOptions = WarehouseOptions(),
) -> ExitCode:
    """Replace the storage credential of a warehouse. The former one is destroyed.

    Parameters
    ----------
    credential
        Storage credential as JSON, @FILE, or - for standard input; null removes the credential.
    key_lost
        Accept a secret key that decrypts no stored credential, because the former key is lost.
    """
    from . import operator_commands, storage_commands
    from .commands.warehouses.update_storage import UpdateStorageCredential

    command = UpdateStorageCredential(operator_commands.json_argument(credential, "--credential"))
    return storage_commands.update_storage(
        options.settings(), Output(), options.in_project(warehouse), command, key_lost=key_lost, as_json=as_json
    )


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
            change = UpdateStorageProfile(operator_commands.profile_argument(profile), storage_credential)
        elif credential is not None:
            change = UpdateStorageCredential(storage_credential)
        return storage_commands.validate_storage(options.settings(), Output(), options.in_project(warehouse), change, as_json=as_json)
    if profile is None:
        raise CommandFailed(ExitCode.USAGE, "--new needs --profile")
    warehouse, options = options.of_new(warehouse)
    command = CreateWarehouse(warehouse, operator_commands.profile_argument(profile), storage_credential)
    return storage_commands.validate_creation(options.settings(), Output(), command, options.project, as_json=as_json)
