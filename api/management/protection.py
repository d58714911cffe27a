"""Protection of namespaces, tables and views, as in Lakekeeper's management API (`/management/v1/warehouse/{id}/table/{id}/protection`)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

import orjson
from aiohttp import web

from ...commands.protection.set_protection import set_namespace_protection as execute_set_namespace_protection
from ...commands.protection.set_protection import set_table_protection as execute_set_table_protection
from ...commands.protection.set_protection import set_view_protection as execute_set_view_protection
from ...domain.commands import SetNamespaceProtection, SetTableProtection, SetViewProtection
from ...domain.errors import CatalogError, NoSuchNamespace, NoSuchTable, NoSuchView
from ...domain.identifiers import ContentKind, uuid_or_none
from ...queries.load_protection import changed_up_to, load_protection
from ..api_request import POSITION_HEADER, ApiRequest, Command, Execute
from ..path_parameters import decode_segment
from .warehouses import requested_warehouse

_NO_SUCH: Mapping[ContentKind, type[CatalogError]] = {"namespace": NoSuchNamespace, "table": NoSuchTable, "view": NoSuchView}


async def get_namespace_protection(request: ApiRequest) -> web.Response:
    return await _load(request, "namespace")


async def get_table_protection(request: ApiRequest) -> web.Response:
    return await _load(request, "table")


async def get_view_protection(request: ApiRequest) -> web.Response:
    return await _load(request, "view")


async def set_namespace_protection(request: ApiRequest) -> web.Response:
    return await _set(request, "namespace", SetNamespaceProtection, execute_set_namespace_protection)


async def set_table_protection(request: ApiRequest) -> web.Response:
    return await _set(request, "table", SetTableProtection, execute_set_table_protection)


async def set_view_protection(request: ApiRequest) -> web.Response:
    return await _set(request, "view", SetViewProtection, execute_set_view_protection)


async def _load(request: ApiRequest, kind: ContentKind) -> web.Response:
    warehouse, object_id = await requested_warehouse(request), path_object_id(request, kind)
    if not warehouse.active:
        raise warehouse.inactive_error()
    found = await load_protection(request.catalog.queries, request.context, warehouse, kind, object_id)
    return await request.json(_response(found.protected, found.updated_at))


async def _set(request: ApiRequest, kind: ContentKind, command: Callable[[UUID, bool], Command], execute: Execute[Command]) -> web.Response:
    """200 with the protection, and the time of the object's last event."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("protected",))
    protected = fields.required_boolean("protected")
    warehouse, object_id = await requested_warehouse(request, or_deleted=True), path_object_id(request, kind)
    context = request.command_context(warehouse, body, ())
    result = await execute(request.catalog.commands, context, warehouse, command(object_id, protected))
    assert isinstance(result.body, bytes), "the response is one bytes object"
    updated_at = await changed_up_to(request.catalog.queries, object_id, result.position)
    response = await request.json(_response(orjson.loads(result.body)["protected"], updated_at))
    response.headers[POSITION_HEADER] = str(result.position)
    return response


def _response(protected: bool, updated_at: datetime | None) -> dict[str, object]:
    # Lakekeeper spells this member with an underscore.
    return {"protected": protected, "updated_at": updated_at}


def path_object_id(request: ApiRequest, kind: ContentKind) -> UUID:
    """The id in the path. Raises NoSuchNamespace, NoSuchTable or NoSuchView if it is none."""
    text = decode_segment(request.segments[f"{kind}_id"], f"{kind} id")
    object_id = uuid_or_none(text)
    if object_id is None:
        raise _NO_SUCH[kind](f"{kind.capitalize()} does not exist: {text[:64]} (must be an id; a listing with returnUuids=true has ids)")
    return object_id
