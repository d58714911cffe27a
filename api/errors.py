"""Errors as Iceberg's `ErrorModel`, and the two errors that only the HTTP edge raises."""

import orjson
from aiohttp import web

from ..domain.errors import BadRequest, CatalogError, Forbidden, MethodNotAllowed, NotAuthorized, NotFound, PayloadTooLarge

PROPOSAL_HEADER = "Icecore-Proposal"
"""On a refusal because the change was held back: the id of the proposal it waits as."""

_JSON_HEADERS = {"Content-Type": "application/json"}


class RequestTimeout(CatalogError, status=408, type="RequestTimeoutException"):
    """The client took longer to send its body than the edge waits."""


class UnsupportedMediaType(CatalogError, status=415, type="UnsupportedMediaTypeException"):
    """The body is not plain JSON in UTF-8."""


class ChunksTooSmall(CatalogError, status=BadRequest.status, type=BadRequest.type):
    """Invalid body: its chunks are too small, send at least 100 bytes in each"""


_BY_HTTP_STATUS: dict[int, type[CatalogError]] = {
    error.status: error for error in (BadRequest, NotAuthorized, Forbidden, NotFound, MethodNotAllowed, RequestTimeout, PayloadTooLarge)
}


def error_body(status: int, type_: str, message: str) -> bytes:
    """`{"error": {"message", "type", "code"}}`.

    The request id is a header and not part of it: a refusal that is replayed for its Idempotency-Key has the same bytes.
    """
    return orjson.dumps({"error": {"message": message, "type": type_, "code": status}})


def error_response(error: CatalogError, *, head: bool = False) -> web.Response:
    """`error` as an answer; without a body to HEAD. `Retry-After` is sent where the error names one."""
    body = None if head else error_body(error.status, error.type, error.message)
    response = web.Response(status=error.status, body=body, headers=None if head else _JSON_HEADERS)
    proposal_id = getattr(error, "proposal_id", None)
    if proposal_id is not None:
        response.headers[PROPOSAL_HEADER] = str(proposal_id)
    retry_after_seconds = getattr(error, "retry_after_seconds", None)
    if retry_after_seconds is not None:
        response.headers["Retry-After"] = str(retry_after_seconds)
    if isinstance(error, MethodNotAllowed) and len(error.args) > 1:
        response.headers["Allow"] = ", ".join(error.args[1])
    return response


def from_http_exception(error: web.HTTPException) -> CatalogError:
    """What aiohttp itself refuses (no such route, a body over the limit), as one of our refusals of the same kind."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        return MethodNotAllowed(f"Method not allowed: {error.method}", sorted(error.allowed_methods))
    if error.status == NotFound.status:
        return NotFound("No such address")
    return _BY_HTTP_STATUS.get(error.status, BadRequest)(error.text or error.reason)
