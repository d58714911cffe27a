"""The one middleware: every request gets an id, every failure becomes an Iceberg error, every refusal is counted, every request logged."""

import asyncio
import logging
import time
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from api.errors import error_response, from_http_exception
from api.request_figures import REQUEST_FIGURES
from api.request_ids import REQUEST_ID, REQUEST_ID_HEADER, name_answer, request_id_of
from api.routing import Operation
from domain.errors import CatalogError, CommitStateUnknown, InternalError, ServiceUnavailable

OPERATION: web.RequestKey[Operation] = web.RequestKey("operation", Operation)

_PATH_LOGGED_LENGTH_MAX = 256
_READS = frozenset({"GET", "HEAD"})

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")
# Asked for its level alone: a line that will not be written should cost nothing on the busiest path.
_levels = logging.getLogger("icecore.api")


def _unforeseen(request: web.Request, error: BaseException) -> CatalogError:
    """What the client is told of a fault of ours: nothing of the trace, and on a commit that its outcome is open (P4)."""
    operation = request.get(OPERATION)
    if operation is not None and operation.commits:
        return CommitStateUnknown("The commit may have happened or not: load the table before cleaning up")
    if isinstance(error, TimeoutError) and request.method in _READS:
        return ServiceUnavailable("The request took too long")
    return InternalError("Something broke that should not have; the request id finds it in the logs")


def _refusal(request: web.Request, error: Exception) -> CatalogError:
    """`error` as a refusal; faults of ours are logged with their trace."""
    if isinstance(error, CatalogError):
        return error
    if isinstance(error, web.HTTPException):
        return from_http_exception(error)
    refusal = _unforeseen(request, error)
    _log.error("request_failed", request_id=request[REQUEST_ID], operation=_operation_name(request), exc_info=error)
    return refusal


def _operation_name(request: web.Request) -> str | None:
    operation = request.get(OPERATION)
    return None if operation is None else operation.name


def _log_request(request: web.Request, status: int, refusal: CatalogError | None, seconds: float) -> None:
    """One line a request, at debug for reads that succeed. Neither body nor query is logged: both can hold credentials."""
    succeeded_reading = refusal is None and request.method in _READS
    if succeeded_reading and not _levels.isEnabledFor(logging.DEBUG):
        return
    fields: dict[str, Any] = {
        "request_id": request[REQUEST_ID],
        "operation": _operation_name(request),
        "method": request.method,
        "path": request.rel_url.raw_path[:_PATH_LOGGED_LENGTH_MAX],
        "status": status,
        "milliseconds": round(seconds * 1000, 3),
    }
    if refusal is not None:
        _log.info("request", **fields, error=refusal.type)
    elif succeeded_reading:
        _log.debug("request", **fields)
    else:
        _log.info("request", **fields)


@web.middleware
async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
    started = time.perf_counter()
    request_id = request[REQUEST_ID] = request_id_of(request.headers.get(REQUEST_ID_HEADER))
    refusal: CatalogError | None = None
    response: web.StreamResponse
    try:
        response = await handler(request)
    except asyncio.CancelledError:
        # The process stops: the connection goes with the request, and no answer can be sent.
        _log.warning("request_cancelled", request_id=request_id, operation=_operation_name(request))
        raise
    except Exception as error:
        if isinstance(error, web.HTTPException) and error.status < 400:
            raise
        refusal = _refusal(request, error)
        response = error_response(refusal, head=request.method == "HEAD")
        request.app[REQUEST_FIGURES].refusals[refusal.type] += 1
    if not response.prepared:
        name_answer(response, request_id)
    seconds = time.perf_counter() - started
    request.app[REQUEST_FIGURES].add(_operation_name(request), response.status, seconds)
    _log_request(request, response.status, refusal, seconds)
    return response
