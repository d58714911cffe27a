"""The commands `icecore view …`."""

from cyclopts import App

from .command_settings import CommonOptions, Json, ProtectionOff
from .exit_codes import ExitCode
from .output import Output

view = App(name="view", help="Protect views.")


@view.command(name="protect")
def protect_view(view: str, /, *, off: ProtectionOff = False, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Protect a view: it can be dropped only with force=true, which engines do not send.

    Parameters
    ----------
    view
        [WAREHOUSE:]NAMESPACE.VIEW, or the view's id in place of its name.
    """
    from . import object_commands

    return object_commands.protect(options.settings(), Output(), "view", view, protected=not off, as_json=as_json)
