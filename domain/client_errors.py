"""Describes errors of client libraries by type, host and port only. Their text may contain URLs, headers and responses."""

import errno
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

_CAUSES_MAX = 4
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_QUOTED_NAME = re.compile(r'"[^"]*" ?')
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}|[0-9a-fA-F:.]{2,45}")
_CAUSE_ATTRIBUTES = ("os_error", "certificate_error")
"""Exceptions of aiohttp."""

_PHRASES = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "too many connections",
    "too many clients",
    "the database system is starting up",
    "the database system is shutting down",
    "database does not exist",
    "role does not exist",
    "role is not permitted to log in",
    "permission denied for database",
    "connection refused",
    "connection reset",
    "connection timeout expired",
    "name or service not known",
    "server closed the connection unexpectedly",
    "server does not support SSL",
    "authentication failed",
    "authorization violation",
    "certificate verify failed",
    "hostname mismatch",
    "alert bad certificate",
    "alert certificate required",
    "handshake failed",
    "wrong version number",
    "unknown topic or partition",
    "missing or bad credentials",
)
"""Phrases of libpq, OpenSSL, librdkafka and NATS that help to fix the problem. No other part of an error's text is shown."""


def client_error_text(error: BaseException, address: str = "") -> str:
    """The types of the error and its causes, and `address`; also an SQLSTATE, an errno's name and well-known phrases.

    address -- host and port of the peer, as `address_of` returns them.
    """
    said: list[str] = []
    for each in _causes(error):
        said += [part for part in (type(each).__name__, _code(each)) if part and part not in said]
    phrases = known_phrases(" ".join(map(str, _causes(error))))
    where = f" at {address}" if address else ""
    return ", ".join(said) + where + (f" ({phrases})" if phrases else "")


def known_phrases(text: str) -> str:
    """The well-known phrases in an error's text, without quoted names."""
    text = _QUOTED_NAME.sub("", text)
    return ", ".join(phrase for phrase in _PHRASES if phrase.lower() in text.lower())


def address_of(url: str) -> str:
    """`host:port` of a URL, or of a text `host:port`; empty if it may be part of an unencoded password."""
    scheme, found, rest = url.partition("://")
    rest = rest if found else scheme
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if url.count("@") > 1 or ("@" in url and "@" not in authority):
        return ""
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if not _HOST.fullmatch(host):
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen and len(seen) < _CAUSES_MAX:
        seen.append(following)
        yield following
        inner = next((cause for name in _CAUSE_ATTRIBUTES if isinstance(cause := getattr(following, name, None), BaseException)), None)
        following = inner or following.__cause__


def _code(error: BaseException) -> str:
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str) and _SQLSTATE.fullmatch(sqlstate):
        return f"SQLSTATE {sqlstate}"
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number, "") if isinstance(error, OSError) and isinstance(number, int) else ""
