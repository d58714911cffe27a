"""Listings of namespaces, tables and views (spec: ListTablesResponse)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import orjson
from aiohttp import web

from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.byte_pieces import JOINED_BYTES_MAX, BytePieces, Content, joined
from ...domain.identifiers import NamespaceIdentifier, name_key
from ...queries.executor import QueryExecutor
from ...queries.results import Page, PageRequest
from ..api_request import ApiRequest
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import parse_existing_namespace

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""Limit on the total size of the namespace in all items of a page: its levels may have 16 KB. A listing without pages has no limit."""
_ITEMS_AT_ONCE_MAX = 2_000
# Memory of a small bytes object, and of two items in a tuple.
_PIECE_OVERHEAD_BYTES = 56

Listing = Callable[[QueryExecutor, RequestContext, Warehouse, NamespaceIdentifier, PageRequest], Awaitable[Page[str]]]


async def list_identifiers(call: ApiRequest, listing: Listing) -> web.Response:
    """One page of `listing` in the namespace of the path."""
    namespace = parse_existing_namespace(call.segments["namespace"])
    warehouse = await call.warehouse()
    keys = (name_key(level, exact=warehouse.exact_names) for level in namespace.levels)
    digest = listing_digest(call.operation.name, warehouse.prefix, *keys)
    before = b'{"namespace":' + orjson.dumps(namespace.levels) + b',"name":'
    requested = bounded(parse_page(call.query, digest, call.catalog.limits), before)
    page = await listing(call.catalog.queries, listing_context(call), warehouse, namespace, requested)
    return await respond_listing(call, "identifiers", page, digest, before, b"}")


def listing_context(call: ApiRequest) -> RequestContext:
    """The context of the request, which reserves memory for names while they are read."""
    return replace(call.context, reserve_memory=call.reserve_memory)


def bounded(page: PageRequest, before: bytes) -> PageRequest:
    """Reduces the size of a page whose items each repeat a prefix, so that it is not larger than PAGE_BYTES_MAX."""
    if page.size is None:
        return page
    return replace(page, size=max(1, min(page.size, PAGE_BYTES_MAX // len(before))))


async def respond_listing(call: ApiRequest, member: str, page: Page[str], digest: str, before: bytes, after: bytes) -> web.Response:
    """Responds with the page as list `member`. Each item is `before`, a name and `after`."""
    # The names, and their JSON.
    call.reserve_memory(2 * page.memory_bytes)
    token = None if page.next_key is None else page_token(digest, page.next_key)
    opening = b"{" + orjson.dumps(member) + b":["
    closing = b'],"next-page-token":' + orjson.dumps(token) + b"}"
    return await call.json_bytes(await _content(opening, page.items, before, after, closing))


async def _content(opening: bytes, names: Sequence[str], before: bytes, after: bytes, closing: bytes) -> Content:
    """Joins a small listing. In a large one, all items share one object for the prefix."""
    pieces = [opening]
    between = b"," + before
    held = len(opening) + len(between) + len(closing)
    for start in range(0, len(names), _ITEMS_AT_ONCE_MAX):
        if start:
            # Lets other requests run.
            await asyncio.sleep(0)
        for name in names[start : start + _ITEMS_AT_ONCE_MAX]:
            item = orjson.dumps(name) + after
            pieces += (between if len(pieces) > 1 else before, item)
            held += len(item) + _PIECE_OVERHEAD_BYTES
    pieces.append(closing)
    content = BytePieces(pieces, memory_bytes=held)
    return joined(content) if len(content) <= JOINED_BYTES_MAX else content
