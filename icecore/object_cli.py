"""The commands `icecore namespace …`, `icecore table …` and `icecore view …`."""

from typing import Annotated, Literal

from cyclopts import App, Parameter

from .command_settings import Config, Data, Json, command_settings
from .exit_codes import ExitCode
from .output import Output

namespace = App(name="namespace", help="Protect namespaces.")
table = App(name="table", help="Protect tables, and list dropped ones.")
view = App(name="view", help="Protect views.")

Off = Annotated[bool, Parameter(negative=(), help="Remove the protection.")]


@namespace.command(name="protect")
def protect_namespace(name: str, /, *, off: Off = False, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Protect a namespace: it is dropped only with force=true, which engines do not send. What it contains is not protected.

    Parameters
    ----------
    name
        [WAREHOUSE:]NAMESPACE, with dots between levels, or the namespace's id in place of its name.
    """
    return _protect("namespace", name, off=off, as_json=as_json, data=data, config=config)


@table.command(name="protect")
def protect_table(name: str, /, *, off: Off = False, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Protect a table: it is dropped and unregistered only with force=true, which engines do not send.

    Parameters
    ----------
    name
        [WAREHOUSE:]NAMESPACE.TABLE, or the table's id in place of its name.
    """
    return _protect("table", name, off=off, as_json=as_json, data=data, config=config)


@view.command(name="protect")
def protect_view(name: str, /, *, off: Off = False, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Protect a view: it is dropped only with force=true, which engines do not send.

    Parameters
    ----------
    name
        [WAREHOUSE:]NAMESPACE.VIEW, or the view's id in place of its name.
    """
    return _protect("view", name, off=off, as_json=as_json, data=data, config=config)


def _protect(kind: Literal["namespace", "table", "view"], name: str, *, off: bool, as_json: bool, data: Data, config: Config) -> ExitCode:
    from . import object_commands

    return object_commands.protect(command_settings(config, data), Output(), kind, name, protected=not off, as_json=as_json)
