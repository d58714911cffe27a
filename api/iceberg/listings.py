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
from ...queries.answers import Page, PageRequest
from ...queries.executor import QueryExecutor
from ..api_request import ApiRequest
from ..paging import listing_digest, page_token, parse_page
from ..path_parameters import parse_existing_namespace

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""Of what stands before the names of a page: the levels of a namespace may have 16 KB. Who asks for no pages gets everything."""
_ITEMS_AT_ONCE_MAX = 2_000
# Of a small object of bytes, and of two places in a tuple.
_PIECE_OVERHEAD_BYTES = 56

Listing = Callable[[QueryExecutor, RequestContext, Warehouse, NamespaceIdentifier, PageRequest], Awaitable[Page[str]]]


async def list_identifiers(call: ApiRequest, listing: Listing) -> web.Response:
    """One page of `listing` in the namespace of the address."""
    namespace = parse_existing_namespace(call.segments["namespace"])
    warehouse = await call.warehouse()
    keys = (name_key(level, exact=warehouse.exact_names) for level in namespace.levels)
    digest = listing_digest(call.operation.name, warehouse.prefix, *keys)
    before = b'{"namespace":' + orjson.dumps(namespace.levels) + b',"name":'
    asked = bounded(parse_page(call.query, digest, call.catalog.limits), before)
    page = await listing(call.catalog.queries, listing_context(call), warehouse, namespace, asked)
    return await answer_listing(call, "identifiers", page, digest, before, b"}")


def listing_context(call: ApiRequest) -> RequestContext:
    """The call's, with room taken for names while they are read."""
    return replace(call.context, make_room=call.make_room)


def bounded(page: PageRequest, before: bytes) -> PageRequest:
    """A page whose items have so much before each name ends where it would be larger than PAGE_BYTES_MAX."""
    if page.size is None:
        return page
    return replace(page, size=max(1, min(page.size, PAGE_BYTES_MAX // len(before))))


async def answer_listing(call: ApiRequest, member: str, page: Page[str], digest: str, before: bytes, after: bytes) -> web.Response:
    """The page as `member`, a list: each item is `before`, a name and `after`."""
    # The names themselves, and as JSON.
    call.make_room(2 * page.held_bytes)
    token = None if page.next_key is None else page_token(digest, page.next_key)
    opening = b"{" + orjson.dumps(member) + b":["
    closing = b'],"next-page-token":' + orjson.dumps(token) + b"}"
    return await call.json_bytes(await _content(opening, page.items, before, after, closing))


async def _content(opening: bytes, names: Sequence[str], before: bytes, after: bytes, closing: bytes) -> Content:
    """Joined where it is small; else what stands before the names is there once, however many there are."""
    pieces = [opening]
    between = b"," + before
    held = len(opening) + len(between) + len(closing)
    for start in range(0, len(names), _ITEMS_AT_ONCE_MAX):
        if start:
            # Others get their turns.
            await asyncio.sleep(0)
        for name in names[start : start + _ITEMS_AT_ONCE_MAX]:
            item = orjson.dumps(name) + after
            pieces += (between if len(pieces) > 1 else before, item)
            held += len(item) + _PIECE_OVERHEAD_BYTES
    pieces.append(closing)
    content = BytePieces(pieces, held_bytes=held)
    return joined(content) if len(content) <= JOINED_BYTES_MAX else content
