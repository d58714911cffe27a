"""Moves of namespaces, as in Lakekeeper's management API (`/management/v1/warehouse/{id}/namespace/{id}/move`)."""

from aiohttp import web

from ...commands.namespaces.move_namespace import move_namespace as execute_move_namespace
from ...domain.commands import MoveNamespace
from ..api_request import ApiRequest
from .protection import path_object_id
from .warehouses import execute_on_warehouse


async def move_namespace(request: ApiRequest) -> web.Response:
    """200 with the new path. Unlike Lakekeeper, also a namespace that contains namespaces."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("destination", "force"))
    command = MoveNamespace(path_object_id(request, "namespace"), fields.namespace("destination"), fields.boolean("force"))
    return await execute_on_warehouse(request, execute_move_namespace, command, body)
