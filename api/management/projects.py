"""Projects: create, list, load, rename and delete them, as in Lakekeeper's management API (`/management/v1/project`)."""

from aiohttp import web

from ...commands.projects.change_project import delete_project as execute_delete_project
from ...commands.projects.change_project import rename_project as execute_rename_project
from ...commands.projects.create_project import create_project as execute_create_project
from ...domain.identifiers import parse_name, uuid_or_none
from ...domain.project import CreateProject, DeleteProject, RenameProject
from ...queries import load_project as load_project_query
from ..api_request import ApiRequest


async def create_project(request: ApiRequest) -> web.Response:
    """201 with the project's id, which the client may choose."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("project-name", "project-id"))
    name, chosen = fields.name("project-name", "project name", parse_name), fields.text_or_none("project-id")
    project_id = None if chosen is None else uuid_or_none(chosen)
    if chosen is not None and project_id is None:
        raise fields.invalid_error("project-id", "must be a UUID of 36 characters")
    context = request.command_context(None, body, ())
    return await request.command_response(await execute_create_project(request.catalog.commands, context, CreateProject(name, project_id)))


async def list_projects(request: ApiRequest) -> web.Response:
    return await request.json({"projects": await load_project_query.list_projects(request.catalog.queries, request.context)})


async def get_project(request: ApiRequest) -> web.Response:
    return await request.json(await load_project_query.load_project(request.catalog.queries, request.context))


async def rename_project(request: ApiRequest) -> web.Response:
    """200 without a body, as in Lakekeeper."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("new-name",))
    command = RenameProject(fields.name("new-name", "project name", parse_name))
    context = request.command_context(None, body, ())
    return await request.command_response(await execute_rename_project(request.catalog.commands, context, command))


async def delete_project(request: ApiRequest) -> web.Response:
    """204."""
    context = request.command_context(None, b"", ())
    return await request.command_response(await execute_delete_project(request.catalog.commands, context, DeleteProject()))
