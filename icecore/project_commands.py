"""Commands for operators on projects. They use the database directly, like those of operator_commands."""

from typing import Any

import orjson
import uvloop
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from .commands.projects.change_project import delete_project, rename_project
from .commands.projects.create_project import create_project
from .compose import open_catalog
from .demo_warehouse import operator_context
from .domain.project import CreateProject, DeleteProject, ProjectState, RenameProject
from .exit_codes import ExitCode
from .log_database import opened_database, require_schema, require_writable
from .projections import projects
from .settings import Settings


def make_project(settings: Settings, console: Console, command: CreateProject, *, as_json: bool) -> ExitCode:
    """Creates a project as the management API does, and prints it."""

    async def run(opened: Settings) -> ProjectState:
        await require_writable(opened)
        async with open_catalog(opened) as catalog:
            await create_project(catalog.commands, operator_context("createProject"), command)
            async with catalog.backends.connection() as connection:
                return await projects.find_named(connection, command.name)

    with opened_database(settings) as opened:
        created = uvloop.run(run(opened))
    _print(console, created, as_json=as_json)
    return ExitCode.OK


def list_projects(settings: Settings, console: Console, *, as_json: bool) -> ExitCode:
    """Lists every project."""

    async def run(opened: Settings) -> list[ProjectState]:
        await require_schema(opened)
        async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
            return await projects.read_all(connection)

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    if as_json:
        console.out(orjson.dumps([_json(each) for each in found]).decode(), highlight=False)
        return ExitCode.OK
    rows = [("name", "id"), *((each.name, str(each.id)) for each in found)]
    width = max(cell_len(name) for name, _ in rows)
    for name, project_id in rows:
        console.out(f"{set_cell_size(name, width)}  {project_id}", highlight=False)
    return ExitCode.OK


def get_project(settings: Settings, console: Console, reference: str, *, as_json: bool) -> ExitCode:
    """Prints a project."""

    async def run(opened: Settings) -> ProjectState:
        await require_schema(opened)
        async with open_catalog(opened) as catalog, catalog.backends.connection() as connection:
            return await projects.find_named(connection, reference)

    with opened_database(settings) as opened:
        found = uvloop.run(run(opened))
    _print(console, found, as_json=as_json)
    return ExitCode.OK


def change_project(
    settings: Settings, console: Console, reference: str, command: RenameProject | DeleteProject, *, as_json: bool
) -> ExitCode:
    """Changes a project as the management API does, and prints it; nothing after its deletion."""

    async def run(opened: Settings) -> ProjectState | None:
        await require_writable(opened)
        async with open_catalog(opened) as catalog:
            async with catalog.backends.connection() as connection:
                project_id = (await projects.find_named(connection, reference)).id
            if isinstance(command, DeleteProject):
                await delete_project(catalog.commands, operator_context("deleteProject", project_id), command)
                return None
            await rename_project(catalog.commands, operator_context("renameProject", project_id), command)
            async with catalog.backends.connection() as connection:
                return await projects.find(connection, project_id)

    with opened_database(settings) as opened:
        changed = uvloop.run(run(opened))
    if changed is not None:
        _print(console, changed, as_json=as_json)
    return ExitCode.OK


def _print(console: Console, state: ProjectState, *, as_json: bool) -> None:
    console.out(orjson.dumps(_json(state)).decode() if as_json else f"{state.name}  {state.id}", highlight=False)


def _json(state: ProjectState) -> dict[str, Any]:
    return {"project-id": str(state.id), "project-name": state.name}
