"""Soft-deleted namespaces: list them, and undrop one with all that was dropped with it (`…/warehouse/<id>/deleted-namespaces`).

Lakekeeper has no soft deletion of namespaces. The form is that of its `deleted-tabulars`.
"""

from uuid import UUID

from aiohttp import web

from ...commands.namespaces.undrop_namespace import undrop_namespace as execute_undrop_namespace
from ...domain.commands import UndropNamespace
from ...domain.errors import NoSuchNamespace
from ...domain.identifiers import uuid_or_none
from ...domain.proposal import time_text
from ...queries.list_soft_deleted import SoftDeleted, list_soft_deleted_namespaces
from ..api_request import ApiRequest
from ..paging import PAGE_PARAMETERS, listing_digest
from ..path_parameters import decode_segment
from .deleted_tabulars import listed_page
from .warehouses import execute_on_warehouse, parse_warehouse_id

LIST_PARAMETERS = frozenset(PAGE_PARAMETERS)


async def list_deleted_namespaces(request: ApiRequest) -> web.Response:
    """A page of the namespaces that can be undropped, in the order of creation; not those that were dropped with another."""
    warehouse_id = parse_warehouse_id(request)
    listing = listing_digest("deleted-namespaces", str(warehouse_id))

    async def read(after: UUID | None, size: int) -> tuple[list[dict[str, object]], str | None]:
        page = await list_soft_deleted_namespaces(request.catalog.queries, request.context, warehouse_id, after, size)
        return [written_namespace(warehouse_id, each) for each in page.items], page.next_key

    return await listed_page(request, listing, "namespaces", read)


async def undrop_namespace(request: ApiRequest) -> web.Response:
    """204. `force` in the body, which may be left out: no files are looked for."""
    text = decode_segment(request.segments["namespace_id"], "namespace id")
    namespace_id = uuid_or_none(text)
    if namespace_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {text[:64]} (must be an id)")
    body, force = b"", False
    if request.http_request.can_read_body:
        body, fields = await request.read_body_fields()
        fields.refuse_unknown(("force",))
        force = fields.boolean("force")
    return await execute_on_warehouse(request, execute_undrop_namespace, UndropNamespace(namespace_id, force), body)


def written_namespace(warehouse_id: UUID, each: SoftDeleted) -> dict[str, object]:
    """As a deleted table or view is written, without its type."""
    return {
        "id": each.object_id,
        "name": each.name,
        "namespace": [*each.namespace, each.name],
        "warehouse-id": warehouse_id,
        "created-at": each.created_at,
        "deleted-at": each.dropped_at,
        "expiration-date": time_text(each.expires_at_ms),
    }
