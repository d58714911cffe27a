"""Checks the host and the web origin of requests, because clients are not authenticated yet.

A web page can send requests to a server on the visitor's machine or network. Reading the responses needs the page's own host name to
resolve to that server (DNS rebinding), which the Host header shows. A change needs no response (CSRF), and the browser names
the page's origin (Origin, Sec-Fetch-Site) in every request that is not a GET or HEAD.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from ..domain.errors import BadRequest, Forbidden

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>[^:/?#@\[\]\s]+))(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(r"[^/?#]*://(?P<authority>[^/?#]*)")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]+(?:\s*,\s*[A-Za-z0-9-]+)*")
_HEADER_NAMES_LENGTH_MAX = 1_024
_HOSTS_REMEMBERED_MAX = 256
_CHARSETS_ACCEPTED = frozenset({"utf-8", "utf8", "us-ascii"})
_READS = frozenset({"GET", "HEAD"})
_FOREIGN_SITES = frozenset({"cross-site", "same-site"})

_PREFLIGHT_SECONDS = 600
"""How long a browser may cache the response to a preflight request."""
_METHODS_ALLOWED = "GET, HEAD, POST, DELETE"
_HEADERS_EXPOSED = "ETag, Icecore-Position, Icecore-Proposal, Retry-After, X-Request-Id"


def is_loopback(host: str) -> bool:
    """Whether `host` is `localhost` or a loopback address; other names are not resolved, so they are not."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str | None:
    """The name or address in a Host header, in lower case, without port, brackets and a final dot; None if it is malformed."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match["address"] or match["name"]).lower().removesuffix(".") or None


def _is_address(name: str, address: object) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(str(address).partition("%")[0])
    except ValueError:
        return False


class OriginRules:
    """Refuses requests for a host that is not the server's, and changes sent by web pages of other origins.

    hosts -- names and addresses clients use, besides loopback and the address a connection was made to; without ports.
    own_origins -- origins under which the server itself is reached (`https://catalog.example.com`), for proxies that replace Host.
    cors_origins -- other origins whose pages may use the catalog.
    """

    def __init__(self, hosts: Iterable[str] = (), *, own_origins: Iterable[str] = (), cors_origins: Iterable[str] = ()) -> None:
        self._hosts: Final = frozenset(host.lower() for host in hosts)
        self._own: Final = frozenset(origin.lower() for origin in own_origins)
        self.cors_origins: Final = frozenset(origin.lower() for origin in cors_origins)
        self._known: dict[str, bool] = {}

    def check(self, request: web.BaseRequest) -> None:
        """Raises Forbidden for another host or origin, and BadRequest for unsupported HTTP."""
        if request.version not in (HttpVersion11, HttpVersion10):
            raise BadRequest("Unsupported protocol version: must be HTTP/1.1 or HTTP/1.0")
        headers = request.headers
        # With an absolute target (`GET http://host/path`), its host counts and the Host header is ignored (RFC 9112, 3.2.2).
        target = request.raw_path
        absolute = None if target.startswith("/") else _ABSOLUTE.match(target)
        host = headers.get(hdrs.HOST) if absolute is None else absolute["authority"]
        # HTTP/1.1 without Host is malformed. HTTP/1.0 may omit it, but browsers never do.
        if host is not None and not self._is_named(host) and not self._is_address_of_connection(host, request):
            raise Forbidden("Invalid header 'Host': not a name of this server; ICECORE_ALLOWED_HOSTS lists further names")
        if request.method not in _READS:
            self._check_origin(request, host)
        if request.body_exists:
            _check_transfer_encoding(request)
        elif hdrs.TRANSFER_ENCODING in headers:
            raise BadRequest("Invalid header 'Transfer-Encoding': must be chunked")

    def _is_named(self, host: str) -> bool:
        known = self._known.get(host)
        if known is None:
            name = host_name(host)
            known = name is not None and (is_loopback(name) or name in self._hosts)
            if len(self._known) < _HOSTS_REMEMBERED_MAX:
                self._known[host] = known
        return known

    def _is_address_of_connection(self, host: str, request: web.BaseRequest) -> bool:
        """Whether `host` is the local address of the connection: a server bound to all addresses is reached by each of them."""
        name, local = host_name(host), request.protocol.sockname
        return name is not None and isinstance(local, tuple) and _is_address(name, local[0])

    def _check_origin(self, request: web.BaseRequest, host: str | None) -> None:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            origin = origin.lower()
            if origin in self.cors_origins:
                return
            if origin not in self._own and (host is None or origin not in (f"http://{host.lower()}", f"https://{host.lower()}")):
                raise Forbidden(
                    "Invalid header 'Origin': web pages of other origins cannot send changes, unless ICECORE_CORS_ORIGINS lists them"
                )
        if request.headers.get("Sec-Fetch-Site", "none") in _FOREIGN_SITES:
            raise Forbidden("Invalid header 'Sec-Fetch-Site': web pages of other sites cannot send changes")

    def preflight(self, request: web.BaseRequest) -> web.Response | None:
        """The response to a CORS preflight request from a permitted origin; None for every other request."""
        headers = request.headers
        if request.method != hdrs.METH_OPTIONS or hdrs.ACCESS_CONTROL_REQUEST_METHOD not in headers:
            return None
        if headers.get(hdrs.ORIGIN, "").lower() not in self.cors_origins:
            return None
        response = web.Response(status=204)
        response.headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = _METHODS_ALLOWED
        response.headers[hdrs.ACCESS_CONTROL_MAX_AGE] = str(_PREFLIGHT_SECONDS)
        asked = headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
        if len(asked) <= _HEADER_NAMES_LENGTH_MAX and _HEADER_NAMES.fullmatch(asked):
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = asked
        return response

    def add_cors_headers(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Adds the CORS headers that let a page of a permitted origin read the response."""
        if not self.cors_origins:
            return
        response.headers.add(hdrs.VARY, hdrs.ORIGIN)
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and origin.lower() in self.cors_origins:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _HEADERS_EXPOSED


def _check_transfer_encoding(request: web.BaseRequest) -> None:
    coding = request.headers.get(hdrs.TRANSFER_ENCODING)
    # With an unknown coding, neither this server nor a proxy in front of it knows where the body ends.
    if coding is not None and (coding.strip().lower() != "chunked" or request.version != HttpVersion11):
        raise BadRequest("Invalid header 'Transfer-Encoding': must be chunked")


def check_content_type(content_type: str | None) -> None:
    """Refuses a body that is not JSON in UTF-8. A web page can send other types, or none, without a CORS preflight request."""
    if content_type == "application/json":
        return
    media_type, _, parameters = (content_type or "").partition(";")
    media_type = media_type.strip().lower()
    if media_type != "application/json" and not (media_type.startswith("application/") and media_type.endswith("+json")):
        raise BadRequest("Invalid header 'Content-Type': must be application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _CHARSETS_ACCEPTED:
            raise BadRequest("Invalid header 'Content-Type': the charset must be utf-8")


ORIGIN_RULES: web.AppKey[OriginRules] = web.AppKey("origin_rules", OriginRules)
