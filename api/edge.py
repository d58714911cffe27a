"""The edge of a server: gives every request an id, turns every failure into an Iceberg error, counts and logs.

It wraps the server's handler. It is not a middleware of aiohttp, because a middleware adds a coroutine and two wrappers to every request.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiohttp import web

from ..access.request_context import Principal
from ..domain.errors import CatalogError, CommitStateUnknown, InternalError, ServiceUnavailable
from .byte_budget import BODY_HELD
from .draining import Draining
from .errors import error_response, from_http_exception
from .origins import OriginRules
from .request_ids import REQUEST_ID, REQUEST_ID_HEADER, name_answer, request_id_of, trace_id_or_none
from .request_metrics import RequestMetrics
from .routing import Operation

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPERATION: web.RequestKey[Operation] = web.RequestKey("operation", Operation)
PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)
"""Who asks, once that is known."""

_PATH_LOGGED_LENGTH_MAX = 256
_READS = frozenset({"GET", "HEAD"})

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")
# Asked for its level alone: a line that will not be written should cost nothing on the busiest path.
_levels = logging.getLogger("icecore.api")


def _unforeseen(request: web.Request, error: BaseException) -> CatalogError:
    """What the client is told of a fault of ours: nothing of the trace, and on a commit that its outcome is unknown."""
    operation = request.get(OPERATION)
    if operation is not None and operation.commits:
        return CommitStateUnknown("The outcome of the commit is unknown: load the table before cleaning up")
    if isinstance(error, TimeoutError) and _is_read(request):
        return ServiceUnavailable("The request took too long")
    return InternalError()


def _refusal(request: web.Request, error: Exception) -> CatalogError:
    """`error` as a refusal; faults of ours are logged with their trace."""
    if isinstance(error, CatalogError):
        return error
    if isinstance(error, web.HTTPException):
        return from_http_exception(error)
    refusal = _unforeseen(request, error)
    _log.error("request_failed", **_origin(request), operation=_operation_name(request), exc_info=error)
    return refusal


def _origin(request: web.Request) -> dict[str, Any]:
    """Which request it is and where it comes from, for the log. Behind a proxy, `client` is the proxy: anybody can send a header."""
    fields: dict[str, Any] = {"request_id": request[REQUEST_ID], "client": request.remote}
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


def _log_request(request: web.Request, status: int, refusal: CatalogError | None, seconds: float) -> None:
    """One line a request, at debug for reads that succeed. Neither body nor query is logged: both can hold credentials."""
    level = logging.DEBUG if refusal is None and _is_read(request) else logging.INFO
    if not _levels.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        **_origin(request),
        "operation": _operation_name(request),
        "method": request.method,
        "path": request.rel_url.raw_path[:_PATH_LOGGED_LENGTH_MAX],
        "status": status,
        "milliseconds": round(seconds * 1000, 3),
    }
    if refusal is not None:
        fields["error"] = refusal.type
    _log.log(level, "request", **fields)


class Edge:
    """Around the handler of one server."""

    def __init__(self, handler: Handler, metrics: RequestMetrics, draining: Draining, origins: OriginRules) -> None:
        self._handler, self._metrics, self._draining, self._origins = handler, metrics, draining, origins

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """What the handler answers, or its failure as an answer."""
        self._draining.begin()
        try:
            response = await self._answered(request)
            if self._draining.ending and not response.prepared:
                response.force_close()
            return response
        finally:
            self._draining.end()
            held = None if request.method in _READS else request.get(BODY_HELD)
            if held is not None:
                held.release()

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        request_id = request[REQUEST_ID] = request_id_of(request.headers.get(REQUEST_ID_HEADER))
        refusal: CatalogError | None = None
        response: web.StreamResponse
        try:
            self._origins.check(request)
            preflight = self._origins.preflight(request) if request.method == "OPTIONS" else None
            response = await self._handler(request) if preflight is None else preflight
        except asyncio.CancelledError:
            # The process stops: the connection goes with the request, and no answer can be sent.
            _log.warning("request_cancelled", **_origin(request), operation=_operation_name(request))
            raise
        except Exception as error:
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            refusal = _refusal(request, error)
            # Frames of the trace hold what waits for the error, and this one the refusal: a cycle that would keep the body and the answer.
            refusal.__traceback__ = error.__traceback__ = None
            response = error_response(refusal, head=request.method == "HEAD")
            self._metrics.refusals[refusal.type] += 1
        if not response.prepared:
            name_answer(response, request_id)
            self._origins.permit_reading(request, response)
        seconds = time.perf_counter() - started
        operation = request.get(OPERATION)
        if operation is None or not operation.probe:
            self._metrics.add(None if operation is None else operation.name, response.status, seconds)
        _log_request(request, response.status, refusal, seconds)
        return response
