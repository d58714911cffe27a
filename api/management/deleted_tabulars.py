"""Soft-deleted tables and views: list and undrop them, as in Lakekeeper's management API (`…/warehouse/<id>/deleted-tabulars`)."""

from collections.abc import Awaitable, Callable
from uuid import UUID

from aiohttp import web

from ...commands.tabulars.undrop_tabulars import undrop_tabulars as execute_undrop_tabulars
from ...domain.commands import UNDROP_TARGETS_MAX, UndropTabulars, UndropTarget
from ...domain.errors import BadRequest, NoSuchNamespace
from ...domain.identifiers import uuid_or_none
from ...domain.proposal import time_text
from ...queries.list_soft_deleted import SoftDeleted, list_soft_deleted
from ..api_request import ApiRequest
from ..bodies import BodyReader
from ..paging import PAGE_PARAMETERS, listing_digest, page_token, parse_page
from .warehouses import execute_on_warehouse, parse_warehouse_id

_NAMESPACE = "namespaceId"
LIST_PARAMETERS = frozenset({_NAMESPACE, *PAGE_PARAMETERS})


async def list_deleted_tabulars(request: ApiRequest) -> web.Response:
    """A page of what can be undropped, in the order of creation."""
    warehouse_id = parse_warehouse_id(request)
    namespace_id = _namespace_id(request.query.get(_NAMESPACE))
    listing = listing_digest("deleted-tabulars", str(warehouse_id), str(namespace_id))

    async def read(after: UUID | None, size: int) -> tuple[list[dict[str, object]], str | None]:
        page = await list_soft_deleted(request.catalog.queries, request.context, warehouse_id, namespace_id, after, size)
        return [written_tabular(warehouse_id, each) for each in page.items], page.next_key

    return await listed_page(request, listing, "tabulars", read)


async def listed_page(
    request: ApiRequest,
    listing: str,
    member: str,
    read: Callable[[UUID | None, int], Awaitable[tuple[list[dict[str, object]], str | None]]],
) -> web.Response:
    """The requested page of a listing in the order of ids, as `member`.

    read -- returns at most so many items after an id, and the key after which the next page begins (None: there is none).
    """
    limits = request.catalog.limits
    requested = parse_page(request.query, listing, limits, size_alone=True)
    after = None if requested.after is None else uuid_or_none(requested.after)
    if requested.after is not None and after is None:
        raise BadRequest(f"Invalid parameter '{PAGE_PARAMETERS[0]}': not a token of this catalog")
    items, next_key = await read(after, requested.size or limits.page_size_default)
    return await request.json({member: items, "next-page-token": None if next_key is None else page_token(listing, next_key)})


async def undrop_tabulars(request: ApiRequest) -> web.Response:
    """204. All targets, or none. `force`, which Lakekeeper does not have: also if files are missing."""
    body, fields = await request.read_body_fields()
    fields.refuse_unknown(("targets", "force"))
    targets = [_target(each) for each in fields.each("targets", UNDROP_TARGETS_MAX)]
    if len({target.id for target in targets}) < len(targets):
        raise fields.invalid_error("targets", "names one id more than once")
    return await execute_on_warehouse(request, execute_undrop_tabulars, UndropTabulars(targets, fields.boolean("force")), body)


def _target(fields: BodyReader) -> UndropTarget:
    fields.refuse_unknown(("id", "type"))
    kind, object_id = fields.text("type"), uuid_or_none(fields.text("id"))
    if object_id is None:
        raise fields.invalid_error("id", "must be a UUID")
    match kind:
        case "table" | "view":
            return UndropTarget(kind, object_id)
    raise fields.invalid_error("type", "must be table or view")


def _namespace_id(text: str | None) -> UUID | None:
    if text is None:
        return None
    namespace_id = uuid_or_none(text)
    if namespace_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {text[:64]} (must be an id)")
    return namespace_id


def written_tabular(warehouse_id: UUID, each: SoftDeleted) -> dict[str, object]:
    """Lakekeeper's DeletedTabularResponse, and whether the files are deleted at the expiry."""
    return {
        "id": each.object_id,
        "name": each.name,
        "namespace": each.namespace,
        "typ": each.kind,
        "warehouse-id": warehouse_id,
        "created-at": each.created_at,
        "deleted-at": each.dropped_at,
        "expiration-date": time_text(each.expires_at_ms),
        "purge": each.purges,
    }
