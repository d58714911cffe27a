"""The web application: serves every operation in the same way."""

import asyncio
from collections.abc import Iterable

import aiohttp.http_parser
from aiohttp import HttpVersion11, hdrs, web

from ..access.request_context import ANONYMOUS
from ..domain.errors import BadRequest, UnsupportedOperation
from .api_request import BODY_BUDGET, GZIP_CACHE, LARGE_RESPONSES, RESPONSE_BUDGET, SEPARATOR, ApiRequest
from .byte_budget import ByteBudget, LargeResponses
from .catalog import CATALOG, Catalog
from .compression import GzipCache
from .connections import ClientConnections
from .edge import ENDPOINT_STATISTICS, OPERATION, PRINCIPAL, WebHandler
from .errors import error_response
from .history.event_stream import LARGE_EVENTS
from .history.large_events import LargeEvents
from .limits import ApiLimits
from .operations import OPERATIONS
from .origins import ORIGIN_RULES, OriginRules, check_content_type
from .protocol import EdgeRunner
from .proxies import TRUSTED_PROXIES, TrustedProxies
from .request_ids import REQUEST_ID_HEADER, request_id_of, set_response_headers
from .request_metrics import REQUEST_METRICS, RequestMetrics
from .routing import ROUTES, Operation, Routes

_LINE_BYTES_MAX = 64 * 1024
"""Limit on a request line: sixteen namespace levels of 255 code points, percent-encoded, take 48 KiB."""
_HEADER_BYTES_MAX = 16 * 1024
_READ_BYTES = 64 * 1024
"""aiohttp's read buffer. About twice as many bytes of a body are taken from the socket before the handler reads it."""
_KEEPALIVE_SECONDS = 75.0
_LINGERING_SECONDS = 2.0


async def _accept_expectation(request: web.Request) -> web.StreamResponse | None:
    """Accepts `Expect: 100-continue`, and returns an error response for any other expectation."""
    if request.headers.get("Expect", "").lower() != "100-continue":
        refusal = error_response(BadRequest("Invalid header 'Expect': must be 100-continue"))
        set_response_headers(refusal, request_id_of(request.headers.get(REQUEST_ID_HEADER)))
        return refusal
    if request.version >= HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # aiohttp assumes that a writer with output has begun its response.
        request.writer.output_size = 0
    return None


def _serving(app: web.Application) -> WebHandler:
    """The handler that serves the application's operations.

    It does not use aiohttp's router, which decodes the path before matching and costs a tenth of the time of a cached response.
    """
    authenticator = app[CATALOG].authenticator
    is_read_only = app[CATALOG].read_only
    routes, seconds_max, large_responses = app[ROUTES], app[CATALOG].limits.read_seconds_max, app[LARGE_RESPONSES]

    async def serve(request: web.Request) -> web.StreamResponse:
        operation, segments = routes.find(request.method, request.rel_url.raw_path)
        request[OPERATION] = operation
        if request.body_exists and not operation.body_ignored:
            check_content_type(request.headers.get(hdrs.CONTENT_TYPE))
        if "Expect" in request.headers:
            refusal = await _accept_expectation(request)
            if refusal is not None:
                return refusal
        principal = request[PRINCIPAL] = ANONYMOUS if operation.public else await authenticator.authenticate(request.headers)
        api_request = ApiRequest(app, request, principal, operation, segments)
        if operation.mutates and is_read_only:
            raise UnsupportedOperation("This server is read-only: send changes to a server of the primary")
        if operation.in_project:
            await api_request.resolve_project()
        if operation.mutates:
            return await operation.handler(api_request)
        if len(large_responses) and (key := api_request.response_key) is not None:
            api_request.response_reservation = large_responses.expect(key)
        try:
            async with asyncio.timeout(None if operation.long_lived else seconds_max):
                return await operation.handler(api_request)
        finally:
            if api_request.response_reservation is not None:
                api_request.response_reservation.release()

    return serve


async def _end_event_streams(app: web.Application) -> None:
    app[CATALOG].events.stop()


def build_app(
    catalog: Catalog,
    operations: Iterable[Operation] = OPERATIONS,
    *,
    namespace_separator: str | None = None,
    origin_rules: OriginRules | None = None,
    trusted_proxies: TrustedProxies | None = None,
) -> web.Application:
    """The application over `catalog`, which serves `operations`.

    namespace_separator -- the `namespace-separator` that getConfig advertises; None: the specification's 0x1F.
    origin_rules -- which hosts and origins requests may name; None: loopback and the address of the connection.
    trusted_proxies -- the proxies whose header names the client in log records; None: no proxy.
    """
    app = web.Application(client_max_size=catalog.limits.body_bytes_max)
    app[CATALOG] = catalog
    app[SEPARATOR] = namespace_separator
    app[ORIGIN_RULES] = OriginRules() if origin_rules is None else origin_rules
    app[TRUSTED_PROXIES] = TrustedProxies() if trusted_proxies is None else trusted_proxies
    app[GZIP_CACHE] = GzipCache(catalog.limits)
    app[BODY_BUDGET] = ByteBudget("request bodies", catalog.limits.body_memory_bytes_max)
    responses = app[RESPONSE_BUDGET] = ByteBudget("responses", catalog.limits.response_memory_bytes_max)
    app[LARGE_RESPONSES] = LargeResponses(responses)
    app[REQUEST_METRICS] = RequestMetrics()
    app[ENDPOINT_STATISTICS] = catalog.endpoint_statistics
    app[LARGE_EVENTS] = LargeEvents()
    app[ROUTES] = Routes(operations, read_only=catalog.read_only)
    app.on_shutdown.append(_end_event_streams)
    return app


def check_http_parser() -> None:
    """Raises RuntimeError if aiohttp uses its pure-Python parser: it is slow, and allowed request smuggling (CVE-2026-111750)."""
    if not aiohttp.http_parser.HttpRequestParser.__module__.endswith("_http_parser"):
        raise RuntimeError("aiohttp runs without its C extensions: install a wheel that has them, and unset AIOHTTP_NO_EXTENSIONS")


def build_runner(app: web.Application) -> EdgeRunner:
    """The runner of an application of `build_app`."""
    return build_edge_runner(app, app[CATALOG].limits, _serving(app))


def build_edge_runner(app: web.Application, limits: ApiLimits, handler: WebHandler) -> EdgeRunner:
    """The runner of `handler` behind the edge: limited line lengths, no access log of aiohttp, bodies not decompressed.

    app -- has ORIGIN_RULES, TRUSTED_PROXIES and REQUEST_METRICS; its router is not used.
    """
    check_http_parser()
    return EdgeRunner(
        app,
        handler,
        ClientConnections(limits.connections_max, limits.stall_seconds_max, limits.response_rate_min, app[REQUEST_METRICS].connections),
        access_log=None,
        auto_decompress=False,
        max_line_size=_LINE_BYTES_MAX,
        max_field_size=_HEADER_BYTES_MAX,
        read_bufsize=_READ_BYTES,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        lingering_time=_LINGERING_SECONDS,
    )
