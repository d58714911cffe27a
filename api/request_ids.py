"""The request id and the caller's trace context."""

import re
import string

import uuid_utils
from aiohttp import web

REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
REQUEST_ID_HEADER = "X-Request-Id"
_SERVER = "icecore"

_LENGTH_MAX = 128
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})(?P<trace_id>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,128})?")
_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-_.:")


def safe_text_or_none(text: str | None) -> str | None:
    """`text` if it contains only letters, digits and `-_.:`, so that it cannot forge a log line, header or event."""
    return text if text and len(text) <= _LENGTH_MAX and _CHARACTERS.issuperset(text) else None


def trace_id_or_none(traceparent: str | None) -> str | None:
    """The trace id of a W3C `traceparent`: 32 hexadecimal digits, not all zero; None for any other text."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    return None if found is None else found["trace_id"]


def request_id_of(header: str | None) -> str:
    """The client's own id if `safe_text_or_none` accepts it, else a new UUIDv7."""
    return safe_text_or_none(header) or str(uuid_utils.uuid7())


def set_response_headers(response: web.StreamResponse, request_id: str) -> None:
    """Sets the headers of every response: its request id, and a Server header without versions."""
    response.headers[REQUEST_ID_HEADER] = request_id
    response.headers["Server"] = _SERVER
