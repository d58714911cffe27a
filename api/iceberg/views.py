"""Views: list, create, register, load, replace, drop, rename (spec: /v1/{prefix}/namespaces/{namespace}/views)."""

from aiohttp import web

from ...commands.views.commit_view import commit_view
from ...commands.views.create_view import create_view as execute_create_view
from ...commands.views.drop_view import drop_view as execute_drop_view
from ...commands.views.register_view import register_view as execute_register_view
from ...commands.views.rename_view import rename_view as execute_rename_view
from ...domain.commands import CommitView, CreateView, DropView, RegisterView, RenameView
from ...domain.identifiers import TabularIdentifier
from ...queries import list_tabulars
from ...queries import load_view as load_view_query
from ..api_request import ApiRequest
from ..path_parameters import parse_existing_namespace, parse_existing_tabular
from .force import force_option, requested_force
from .listings import list_identifiers


def _existing_view(request: ApiRequest) -> TabularIdentifier:
    return parse_existing_tabular(request.segments["namespace"], request.segments["view"], "view")


async def list_views(request: ApiRequest) -> web.Response:
    return await list_identifiers(request, list_tabulars.list_views)


async def create_view(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = CreateView(
        namespace=parse_existing_namespace(request.segments["namespace"]),
        name=fields.name("name", "view name"),
        location=fields.text_or_none("location"),
        schema=fields.object("schema"),
        view_version=fields.object("view-version"),
        properties=fields.properties("properties"),
    )
    return await request.execute(execute_create_view, command, body=body)


async def register_view(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = RegisterView(
        namespace=parse_existing_namespace(request.segments["namespace"]),
        name=fields.name("name", "view name"),
        metadata_location=fields.text("metadata-location"),
    )
    return await request.execute(execute_register_view, command, body=body)


async def load_view(request: ApiRequest) -> web.Response:
    warehouse = await request.warehouse()
    return await request.json_bytes(
        await load_view_query.load_view(request.catalog.queries, request.context, warehouse, _existing_view(request))
    )


async def view_exists(request: ApiRequest) -> web.Response:
    warehouse = await request.warehouse()
    await load_view_query.view_exists(request.catalog.queries, request.context, warehouse, _existing_view(request))
    return web.Response(status=204)


async def replace_view(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    limits = request.catalog.limits
    command = CommitView(
        view=_existing_view(request),
        requirements=fields.objects("requirements", limits.requirements_max),
        updates=fields.objects("updates", limits.updates_max),
    )
    return await request.execute(commit_view, command, body=body)


async def drop_view(request: ApiRequest) -> web.Response:
    """`force`: also if it is protected, and the drop is final, also in a soft-deleting warehouse."""
    force = requested_force(request)
    return await request.execute(execute_drop_view, DropView(view=_existing_view(request), force=force), options=force_option(force))


async def rename_view(request: ApiRequest) -> web.Response:
    body, fields = await request.read_body_fields()
    command = RenameView(source=fields.existing_identifier("source", "view"), destination=fields.identifier("destination", "view name"))
    return await request.execute(execute_rename_view, command, body=body)
