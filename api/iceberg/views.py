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
from ..api_request import ApiRequest, force_option, requested_force
from ..path_parameters import parse_existing_namespace, parse_existing_tabular
from .listings import list_identifiers


def _existing_view(call: ApiRequest) -> TabularIdentifier:
    return parse_existing_tabular(call.segments["namespace"], call.segments["view"], "view")


async def list_views(call: ApiRequest) -> web.Response:
    return await list_identifiers(call, list_tabulars.list_views)


async def create_view(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    command = CreateView(
        namespace=parse_existing_namespace(call.segments["namespace"]),
        name=fields.name("name", "view name"),
        location=fields.text_or_none("location"),
        schema=fields.object("schema"),
        view_version=fields.object("view-version"),
        properties=fields.properties("properties"),
    )
    return await call.execute(execute_create_view, command, body=body)


async def register_view(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    command = RegisterView(
        namespace=parse_existing_namespace(call.segments["namespace"]),
        name=fields.name("name", "view name"),
        metadata_location=fields.text("metadata-location"),
    )
    return await call.execute(execute_register_view, command, body=body)


async def load_view(call: ApiRequest) -> web.Response:
    warehouse = await call.warehouse()
    return await call.json_bytes(await load_view_query.load_view(call.catalog.queries, call.context, warehouse, _existing_view(call)))


async def view_exists(call: ApiRequest) -> web.Response:
    warehouse = await call.warehouse()
    await load_view_query.view_exists(call.catalog.queries, call.context, warehouse, _existing_view(call))
    return web.Response(status=204)


async def replace_view(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    limits = call.catalog.limits
    command = CommitView(
        view=_existing_view(call),
        requirements=fields.objects("requirements", limits.requirements_max),
        updates=fields.objects("updates", limits.updates_max),
    )
    return await call.execute(commit_view, command, body=body)


async def drop_view(call: ApiRequest) -> web.Response:
    """`force`: also if it is protected, and the drop is final, also in a soft-deleting warehouse."""
    force = requested_force(call)
    return await call.execute(execute_drop_view, DropView(view=_existing_view(call), force=force), options=force_option(force))


async def rename_view(call: ApiRequest) -> web.Response:
    body, fields = await call.fields()
    command = RenameView(source=fields.existing_identifier("source", "view"), destination=fields.identifier("destination", "view name"))
    return await call.execute(execute_rename_view, command, body=body)
