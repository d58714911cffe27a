"""The commands `icecore project …`."""

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from .command_settings import Config, Data, Json, command_settings
from .exit_codes import ExitCode
from .output import Output

project = App(name="project", help="Create, list, rename and delete projects.")


@project.command(name="create")
def create_project(
    name: str,
    /,
    *,
    project_id: Annotated[UUID | None, Parameter(name="--id")] = None,
    as_json: Json = False,
    data: Data = None,
    config: Config = None,
) -> ExitCode:
    """Create a project and print it.

    Parameters
    ----------
    name
        Name of the project.
    project_id
        Id of the project, which was never used. Default: a new one.
    """
    from . import project_commands
    from .domain.project import CreateProject

    return project_commands.make_project(command_settings(config, data), Output(), CreateProject(name, project_id), as_json=as_json)


@project.command(name="list")
def list_projects(*, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """List the projects."""
    from . import project_commands

    return project_commands.list_projects(command_settings(config, data), Output(), as_json=as_json)


@project.command(name="get")
def get_project(name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Print a project.

    Parameters
    ----------
    name
        Name or id of the project.
    """
    from . import project_commands

    return project_commands.get_project(command_settings(config, data), Output(), name, as_json=as_json)


@project.command(name="rename")
def rename_project(name: str, new_name: str, /, *, as_json: Json = False, data: Data = None, config: Config = None) -> ExitCode:
    """Rename a project. Clients that use it go on.

    Parameters
    ----------
    name
        Name or id of the project.
    new_name
        New name of the project.
    """
    from . import project_commands
    from .domain.project import RenameProject

    return project_commands.change_project(command_settings(config, data), Output(), name, RenameProject(new_name), as_json=as_json)


@project.command(name="delete")
def delete_project(name: str, /, *, data: Data = None, config: Config = None) -> ExitCode:
    """Delete a project without warehouses. Its events stay, its id is never used again.

    Parameters
    ----------
    name
        Name or id of the project.
    """
    from . import project_commands
    from .domain.project import DeleteProject

    return project_commands.change_project(command_settings(config, data), Output(), name, DeleteProject(), as_json=False)
