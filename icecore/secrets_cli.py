"""The commands `icecore secrets …`."""

from cyclopts import App

from .command_settings import CommonOptions, Json
from .exit_codes import ExitCode
from .output import Output

secrets = App(name="secrets", help="Manage the encryption of stored credentials.")


@secrets.command(name="rewrap")
def rewrap_secrets(*, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Encrypt stored credentials with the current key if they were encrypted with an earlier one. Servers keep running.

    The exit code is 1 if some of them cannot be decrypted with any known key. The command may be interrupted and repeated.
    """
    from . import storage_commands

    return storage_commands.rewrap_secrets(options.settings(), Output(), as_json=as_json)
