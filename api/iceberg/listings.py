"""Listings of namespaces, tables and views (spec: ListTablesResponse)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import orjson
from aiohttp import web

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.byte_pieces import JOINED_BYTES_MAX, BytePieces, joined
from ...domain.identifiers import NamespaceIdentifier, name_key
from ...queries.executor import QueryExecutor
from ...queries.results import Page, PageRequest
from ..api_request import ApiRequest
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import parse_boolean, parse_existing_namespace

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""Limit on the total size of the namespace in all items of a page: its levels may have 16 KB. A listing without pages has no limit."""
_ITEMS_INLINE_MAX = 2_000
# Memory of a small bytes object, and of two items in a tuple.
_PIECE_OVERHEAD_BYTES = 56

Listing = Callable[[QueryExecutor, RequestContext, Warehouse, NamespaceIdentifier, PageRequest], Awaitable[Page[str]]]


async def list_identifiers(request: ApiRequest, listing: Listing) -> web.Response:
    """One page of `listing` in the namespace of the path. As in Lakekeeper, views have `table-uuids` too."""
    namespace = parse_existing_namespace(request.segments["namespace"])
    warehouse = await request.warehouse()
    keys = (name_key(level, exact=warehouse.exact_names) for level in namespace.levels)
    digest = listing_digest(request.operation.name, warehouse.prefix, *keys)
    before = b'{"namespace":' + orjson.dumps(namespace.levels) + b',"name":'
    members = requested_members(request, "table-uuids")
    requested = with_objects(bounded(parse_page(request.query, digest, request.catalog.limits), before), members)
    page = await listing(request.catalog.queries, listing_context(request), warehouse, namespace, requested)
    return await respond_listing(request, "identifiers", page, digest, before, b"}", members)


@dataclass(frozen=True, slots=True)
class ObjectMembers:
    """The members of a listing that describe its objects, in the order of the names, as in Lakekeeper; None if not requested."""

    uuids: str | None
    protection: str | None


def requested_members(request: ApiRequest, uuids: str) -> ObjectMembers:
    """The members that the parameters `returnUuids` and `returnProtectionStatus` request. uuids -- the name of the first."""
    ids, protection = (parse_boolean(request.query.get(name) or "false", name) for name in ("returnUuids", "returnProtectionStatus"))
    return ObjectMembers(uuids if ids else None, "protection-status" if protection else None)


def with_objects(page: PageRequest, members: ObjectMembers) -> PageRequest:
    """The page with what the members need."""
    return replace(page, with_objects=members.uuids is not None or members.protection is not None)


def listing_context(request: ApiRequest) -> RequestContext:
    """The context of the request, which reserves memory for names while they are read."""
    return replace(request.context, reserve_memory=request.reserve_memory)


def bounded(page: PageRequest, before: bytes) -> PageRequest:
    """Reduces the size of a page whose items each repeat a prefix, so that it is not larger than PAGE_BYTES_MAX."""
    if page.size is None:
        return page
    return replace(page, size=max(1, min(page.size, PAGE_BYTES_MAX // len(before))))


async def respond_listing(
    request: ApiRequest, member: str, page: Page[str], digest: str, before: bytes, after: bytes, members: ObjectMembers
) -> web.Response:
    """Responds with the page as list `member`. Each item is `before`, a name and `after`."""
    # The lists, and their JSON.
    request.reserve_memory(2 * page.memory_bytes)
    token = None if page.next_key is None else page_token(digest, page.next_key)
    opening = b"{" + orjson.dumps(member) + b":["
    closing = b',"next-page-token":' + orjson.dumps(token) + b"}"
    described = [(name, values) for name, values in ((members.uuids, page.ids), (members.protection, page.protected)) if name is not None]
    pieces, held = await _items(opening, page.items, before, after)
    for name, values in described:
        assert values is not None, "requested with the page"
        lists = await _list(name, values)
        pieces += lists
        held += sum(map(len, lists)) + _PIECE_OVERHEAD_BYTES * len(lists)
    pieces.append(closing)
    content = BytePieces(pieces, memory_bytes=held + len(closing))
    return await request.json_bytes(joined(content) if len(content) <= JOINED_BYTES_MAX else content)


async def _list(name: str, values: Sequence[UUID] | Sequence[bool]) -> list[bytes]:
    """A member of a JSON object, after others."""
    pieces = [b"," + orjson.dumps(name) + b":["]
    for start in range(0, len(values), _ITEMS_INLINE_MAX):
        if start:
            await asyncio.sleep(0)
        written = orjson.dumps(values[start : start + _ITEMS_INLINE_MAX])[1:-1]
        pieces.append(b"," + written if start else written)
    return [*pieces, b"]"]


async def _items(opening: bytes, names: Sequence[str], before: bytes, after: bytes) -> tuple[list[bytes], int]:
    """The pieces of a list with its names, and their memory. All items share one object for the prefix."""
    pieces = [opening]
    between = b"," + before
    held = len(opening) + len(between)
    for start in range(0, len(names), _ITEMS_INLINE_MAX):
        if start:
            # Lets other requests run.
            await asyncio.sleep(0)
        for name in names[start : start + _ITEMS_INLINE_MAX]:
            item = orjson.dumps(name) + after
            pieces += (between if len(pieces) > 1 else before, item)
            held += len(item) + _PIECE_OVERHEAD_BYTES
    pieces.append(b"]")
    return pieces, held
