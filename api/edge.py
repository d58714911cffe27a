"""The edge of a server: gives every request an id, converts every failure to an Iceberg error, counts and logs.

It wraps the server's handler. It is not an aiohttp middleware, because a middleware adds a coroutine and two wrappers to every request.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import structlog
from aiohttp import web

from ..access.endpoint_statistics import EndpointStatistics
from ..access.request_context import Principal
from ..domain.errors import CatalogError, CommitStateUnknown, InternalError, ServiceUnavailable
from .byte_budget import BODY_RESERVATION
from .errors import error_response
from .in_flight_requests import InFlightRequests
from .origins import OriginRules
from .proxies import TrustedProxies
from .request_ids import REQUEST_ID, REQUEST_ID_HEADER, request_id_of, set_response_headers, trace_id_or_none
from .request_metrics import RequestMetrics
from .routing import Operation

WebHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPERATION: web.RequestKey[Operation] = web.RequestKey("operation", Operation)
PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)
"""The authenticated principal, set after authentication."""
STATISTICS_SCOPE: web.RequestKey[tuple[UUID, UUID | None]] = web.RequestKey("scope", tuple)
"""The project of the request, and the warehouse that it names, set once the project is known."""
ENDPOINT_STATISTICS: web.AppKey[EndpointStatistics] = web.AppKey("endpoint_statistics", EndpointStatistics)

_PATH_LOGGED_LENGTH_MAX = 256
_READS = frozenset({"GET", "HEAD"})

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")
# Used only to check the level, so that a line that will not be written costs almost nothing.
_levels = logging.getLogger("icecore.api")


def _unexpected(request: web.Request, error: BaseException) -> CatalogError:
    """The error for an unexpected exception: without its trace, and CommitStateUnknown for a commit."""
    operation = request.get(OPERATION)
    if operation is not None and operation.commits:
        return CommitStateUnknown(
            "The outcome of the commit is unknown: load the table or view that it changes before you delete any files"
        )
    if isinstance(error, TimeoutError) and _is_read(request):
        return ServiceUnavailable("The request took too long; ask for less, such as a smaller page, or try again later")
    return InternalError()


def _catalog_error(request: web.Request, error: Exception, proxies: TrustedProxies) -> CatalogError:
    """`error` as a CatalogError. Unexpected exceptions are logged with their trace."""
    if isinstance(error, CatalogError):
        return error
    catalog_error = _unexpected(request, error)
    _log.error("request_failed", **_request_fields(request, proxies), operation=_operation_name(request), exc_info=error)
    return catalog_error


def _request_fields(request: web.Request, proxies: TrustedProxies) -> dict[str, Any]:
    """The fields that identify a request in log records. Behind a proxy that is not trusted, `client` is the proxy."""
    fields: dict[str, Any] = {"request_id": request[REQUEST_ID], "client": proxies.client(request)}
    principal = request.get(PRINCIPAL)
    if principal is not None:
        fields["actor"] = principal.id
    trace_id = trace_id_or_none(request.headers.get("traceparent"))
    if trace_id is not None:
        fields["trace_id"] = trace_id
    return fields


def _operation_name(request: web.Request) -> str | None:
    operation = request.get(OPERATION)
    return None if operation is None else operation.name


def _is_read(request: web.Request) -> bool:
    operation = request.get(OPERATION)
    return request.method in _READS if operation is None else not operation.mutates


def _log_request(request: web.Request, proxies: TrustedProxies, status: int, catalog_error: CatalogError | None, seconds: float) -> None:
    """Logs one line per request, at debug level for successful reads. Body and query are not logged: both can contain credentials."""
    level = logging.DEBUG if catalog_error is None and _is_read(request) else logging.INFO
    if not _levels.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        **_request_fields(request, proxies),
        "operation": _operation_name(request),
        "method": request.method,
        "path": request.rel_url.raw_path[:_PATH_LOGGED_LENGTH_MAX],
        "status": status,
        "milliseconds": round(seconds * 1000, 3),
    }
    if catalog_error is not None:
        fields["error"] = catalog_error.type
    _log.log(level, "request", **fields)


class Edge:
    """Wraps the handler of one server. Without `statistics`, its calls are not counted by project."""

    def __init__(
        self,
        handler: WebHandler,
        metrics: RequestMetrics,
        in_flight_requests: InFlightRequests,
        origins: OriginRules,
        proxies: TrustedProxies,
        statistics: EndpointStatistics | None = None,
    ) -> None:
        self._handler, self._metrics, self._origins, self._proxies = handler, metrics, origins, proxies
        self._in_flight_requests = in_flight_requests
        self._statistics = statistics

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Returns the handler's response, or an error response if it raises."""
        self._in_flight_requests.begin()
        try:
            response = await self._respond(request)
            if self._in_flight_requests.draining and not response.prepared:
                response.force_close()
            return response
        finally:
            self._in_flight_requests.end()
            reservation = None if request.method in _READS else request.get(BODY_RESERVATION)
            if reservation is not None:
                reservation.release()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        request_id = request[REQUEST_ID] = request_id_of(request.headers.get(REQUEST_ID_HEADER))
        catalog_error: CatalogError | None = None
        response: web.StreamResponse
        try:
            self._origins.check(request)
            preflight = self._origins.preflight(request) if request.method == "OPTIONS" else None
            response = await self._handler(request) if preflight is None else preflight
        except asyncio.CancelledError:
            # The process is stopping. The connection is closed with the request, so no response can be sent.
            _log.warning("request_cancelled", **_request_fields(request, self._proxies), operation=_operation_name(request))
            raise
        except Exception as error:
            catalog_error = _catalog_error(request, error, self._proxies)
            # The traceback's frames refer to the error: a reference cycle that would keep the body and the response in memory.
            catalog_error.__traceback__ = error.__traceback__ = None
            response = error_response(catalog_error, with_body=request.method != "HEAD")
            self._metrics.errors[catalog_error.type] += 1
        if not response.prepared:
            set_response_headers(response, request_id)
            self._origins.add_cors_headers(request, response)
        seconds = time.perf_counter() - started
        operation = request.get(OPERATION)
        if operation is None or not operation.probe:
            self._metrics.add(None if operation is None else operation.name, response.status, seconds)
            scope = request.get(STATISTICS_SCOPE)
            if scope is not None and operation is not None and self._statistics is not None:
                project_id, warehouse_id = scope
                self._statistics.count(project_id, warehouse_id, operation.route, response.status)
        _log_request(request, self._proxies, response.status, catalog_error, seconds)
        return response
