"""The commands `icecore project …`."""

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from .command_settings import CommonOptions, Json, ProjectName
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
    options: CommonOptions = CommonOptions(),
) -> ExitCode:
    """Create a project and print it.

    Parameters
    ----------
    name
        Name of the project.
    project_id
        Id for the project: a UUID that was never used. Default: a new one.
    """
    from . import project_commands
    from .domain.project import CreateProject

    return project_commands.make_project(options.settings(), Output(), CreateProject(name, project_id), as_json=as_json)


@project.command(name="list")
def list_projects(*, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """List the projects."""
    from . import project_commands

    return project_commands.list_projects(options.settings(), Output(), as_json=as_json)


@project.command(name="get")
def get_project(project: ProjectName, /, *, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Print a project."""
    from . import project_commands

    return project_commands.get_project(options.settings(), Output(), project, as_json=as_json)


@project.command(name="rename")
def rename_project(project: ProjectName, new_name: str, /, *, as_json: Json = False, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Rename a project. Clients that have a prefix or use ids keep working. The old name stops working at once.

    Parameters
    ----------
    new_name
        New name of the project.
    """
    from . import project_commands
    from .domain.project import RenameProject

    return project_commands.change_project(options.settings(), Output(), project, RenameProject(new_name), as_json=as_json)


@project.command(name="delete")
def delete_project(project: ProjectName, /, *, options: CommonOptions = CommonOptions()) -> ExitCode:
    """Delete a project without warehouses. Its events are kept, and its id is never used again."""
    from . import project_commands
    from .domain.project import DeleteProject

    return project_commands.change_project(options.settings(), Output(), project, DeleteProject(), as_json=False)
