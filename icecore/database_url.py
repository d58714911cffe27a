"""The database URL: checked when settings are read, and shown without user, password and database name."""

import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .domain.client_errors import address_of

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+:]{0,40}(?=://)")
_PORTS = re.compile(r"\d{0,5}(,\d{0,5})*")
_FORM = "it must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE or libpq's keywords (host=… dbname=…)"


def check_database_url(url: str) -> None:
    """Raises ValueError if libpq could not parse the URL, or would parse it differently than intended. The message contains only the
    scheme.
    """
    scheme = _SCHEME.match(url)
    if scheme is not None and scheme[0] not in ("postgresql", "postgres"):
        raise ValueError(f"begins with {scheme[0]}://, which libpq does not know: {_FORM}")
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise ValueError(f"cannot be read: {_FORM}; percent-encode special characters in a URL") from None
    hosts, ports = str(given.get("host", "")).split(","), str(given.get("port", ""))
    # An unencoded `@`, `/`, `?` or `#` of a password ends up in this part.
    if not _PORTS.fullmatch(ports) or any("@" in host for host in hosts) or (scheme is not None and not _is_plain(url)):
        raise ValueError(f"has an invalid host or port: {_FORM}; in a URL, percent-encode @ / : ? # in a password")


def database_address(url: str) -> str:
    """`host:port`, or the folder of a socket; empty if unknown."""
    if _SCHEME.match(url) and address_of(url):
        return address_of(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        return ""
    host, port = str(given.get("host", "")), str(given.get("port", ""))
    if "@" in host or not _PORTS.fullmatch(port):
        return ""
    return f"{host}:{port}" if host and port else host


def _is_plain(url: str) -> bool:
    """Whether there is no `@` after the authority, which would belong to a password that was split."""
    authority, _, rest = url.partition("://")[2].partition("/")
    return "@" not in rest.partition("?")[0] and authority.count("@") <= 1
