"""The commands `icecore namespace …`."""

from cyclopts import App

from .command_settings import CommonOptions, Json, ProtectionOff
from .exit_codes import ExitCode
from .output import Output

namespace = App(name="namespace", help="Protect namespaces.")


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
