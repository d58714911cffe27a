"""Errors as Iceberg's `ErrorModel` or `OAuthError`, and the errors that only this package raises."""

import orjson
from aiohttp import web

from ..domain.errors import BadRequest, CatalogError, MethodNotAllowed

PROPOSAL_HEADER = "Icecore-Proposal"
"""The header with the id of the proposal, if the change was held for approval."""

_JSON_HEADERS = {"Content-Type": "application/json"}


class RequestTimeout(CatalogError, status=408, type="RequestTimeoutException"):
    """The client took too long to send its body."""


class UnsupportedMediaType(CatalogError, status=415, type="UnsupportedMediaTypeException"):
    """The body is not plain JSON in UTF-8."""


class ChunksTooSmall(CatalogError, status=BadRequest.status, type=BadRequest.type):
    """Invalid body: its chunks are too small; send at least 100 bytes in each"""


class UnsupportedGrantType(CatalogError, status=400, type="UnsupportedGrantTypeException"):
    """This catalog has no authentication: configure no credential"""


def error_body(status: int, type_: str, message: str) -> bytes:
    """`{"error": {"message", "type", "code"}}`.

    It does not contain the request id, because a refusal that is replayed for its Idempotency-Key has the same bytes.
    """
    return orjson.dumps({"error": {"message": message, "type": type_, "code": status}})


def _oauth_error_body(error: UnsupportedGrantType) -> bytes:
    """The spec's `OAuthError`, which clients expect instead of an `ErrorModel` where they request a token."""
    return orjson.dumps({"error": "unsupported_grant_type", "error_description": error.message})


def error_response(error: CatalogError, *, with_body: bool = True) -> web.Response:
    """The response for `error`; `with_body` is False for the method HEAD. `Retry-After` is sent if the error has one."""
    if isinstance(error, UnsupportedGrantType):
        body: bytes | None = _oauth_error_body(error)
    else:
        body = error_body(error.status, error.type, error.message) if with_body else None
    response = web.Response(status=error.status, body=body, headers=_JSON_HEADERS if with_body else None)
    proposal_id = getattr(error, "proposal_id", None)
    if proposal_id is not None:
        response.headers[PROPOSAL_HEADER] = str(proposal_id)
    retry_after_seconds = getattr(error, "retry_after_seconds", None)
    if retry_after_seconds is not None:
        response.headers["Retry-After"] = str(retry_after_seconds)
    if isinstance(error, MethodNotAllowed) and len(error.args) > 1:
        response.headers["Allow"] = ", ".join(error.args[1])
    return response
