"""Describes errors of client libraries by well-known phrases, host and port only. Their text may contain URLs, headers and responses."""

import errno
import re
from collections.abc import Iterator, Sequence
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
    "too many connections for role",
    "too many connections for database",
    "too many clients",
    "remaining connection slots are reserved",
    "no more connections allowed",
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
    "temporary failure in name resolution",
    "no address associated with hostname",
    "no such file or directory",
    "server disconnected",
    "empty response from server",
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
"""Phrases of libpq, PgBouncer, OpenSSL, librdkafka and NATS that help to fix the problem. No other part of an error's text is shown."""

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ENOSPC: "no space left on device",
    errno.EPIPE: "broken pipe",
    errno.ETIMEDOUT: "connection timed out",
}
"""Texts for errors of sockets and files whose own text may contain an address. None is a number of OpenSSL or of name resolution."""


def client_error_text(error: BaseException, address: str = "") -> str:
    """What happened, in well-known phrases, and `address`. Without a known phrase, the types of the error and its causes.

    Also an SQLSTATE. address -- host and port of the peer, as `address_of` returns them.
    """
    causes = list(_causes(error))
    parts = _known_phrases(" ".join(map(str, causes))) + _reasons(causes) or [type(each).__name__ for each in causes]
    parts += [f"SQLSTATE {state}" for each in causes if (state := _sqlstate(each))]
    return ", ".join(dict.fromkeys(parts)) + (f" at {address}" if address else "")


def known_phrases(text: str) -> str:
    """The well-known phrases in an error's text, without quoted names."""
    return ", ".join(_known_phrases(text))


def _known_phrases(text: str) -> list[str]:
    text = _QUOTED_NAME.sub("", text)
    found = [phrase for phrase in _PHRASES if phrase.lower() in text.lower()]
    return [phrase for phrase in found if not any(phrase in other for other in found if other != phrase)]


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


def _reasons(causes: Sequence[BaseException]) -> list[str]:
    reasons = [_REASONS[each.errno] for each in causes if isinstance(each, OSError) and each.errno in _REASONS]
    return reasons or ["no response in time" for each in causes if isinstance(each, TimeoutError)]


def _sqlstate(error: BaseException) -> str:
    """Empty if it has none."""
    sqlstate = getattr(error, "sqlstate", None)
    return sqlstate if isinstance(sqlstate, str) and _SQLSTATE.fullmatch(sqlstate) else ""
