"""Listings of tables and of views, which share their form (spec: ListTablesResponse)."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from access.request_context import RequestContext
from access.warehouse import Warehouse
from api.call import Call
from api.pages import listing_digest, page_token, parse_page
from api.targets import namespace_sought
from domain.identifiers import NamespaceIdentifier, name_key
from queries.answers import Page, PageRequest
from queries.executor import QueryExecutor

Listing = Callable[[QueryExecutor, RequestContext, Warehouse, NamespaceIdentifier, PageRequest], Awaitable[Page[str]]]


async def list_identifiers(call: Call, listing: Listing) -> web.Response:
    """One page of `listing` in the namespace of the address."""
    namespace = namespace_sought(call.segments["namespace"])
    warehouse = await call.warehouse()
    keys = (name_key(level, exact=warehouse.exact_names) for level in namespace.levels)
    digest = listing_digest(call.operation.name, warehouse.prefix, *keys)
    page = await listing(call.catalog.queries, call.context, warehouse, namespace, parse_page(call.query, digest, call.catalog.limits))
    token = None if page.next_key is None else page_token(digest, page.next_key)
    levels = list(namespace.levels)
    return await call.json({"identifiers": [{"namespace": levels, "name": name} for name in page.items], "next-page-token": token})
