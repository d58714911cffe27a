"""Permitted hosts and web origins, invalid HTTP, and CORS, over real connections."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from icecore.api.api_request import ApiRequest
from icecore.api.health import get_health
from icecore.api.limits import ApiLimits
from icecore.api.origins import OriginRules, host_name
from icecore.api.routing import Operation
from icecore.api.server import build_app, build_runner
from icecore.domain.errors import Forbidden
from tests.fixtures.empty_catalog import empty_catalog


async def respond(request: ApiRequest) -> web.Response:
    return await request.json({})


async def change(request: ApiRequest) -> web.Response:
    if request.http_request.body_exists:
        await request.read_body_fields()
    return await request.json({})


OPERATIONS = (
    Operation("getHealth", "GET", "/health", get_health, serves_head_method=True),
    Operation("read", "GET", "/catalog/v1/thing", respond),
    Operation("change", "POST", "/catalog/v1/thing", change),
    Operation("drop", "DELETE", "/catalog/v1/thing", change),
)
RULES = OriginRules(["catalog.example.org"], own_origins=["https://public.example.org"], cors_origins=["https://app.example.org"])

Exchange = Callable[[bytes], Awaitable[tuple[int, dict[str, str], bytes]]]


@pytest_asyncio.fixture
async def exchange() -> AsyncIterator[Exchange]:
    """Sends bytes and reads one response."""
    app = build_app(empty_catalog(ApiLimits()), OPERATIONS, origin_rules=RULES)
    runner = build_runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]

    async def send(request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            return int(head[0].split()[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))
        finally:
            writer.close()

    yield send
    await runner.cleanup()


def request(method: str, *headers: str, host: str = "127.0.0.1:8181", body: bytes = b"") -> bytes:
    lines = [f"{method} /v1/thing HTTP/1.1", f"Host: {host}", *headers, *([f"Content-Length: {len(body)}"] if body else [])]
    return "\r\n".join([*lines, "", ""]).encode() + body


def refused(answered: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    """Status and type of a refusal in Iceberg's form."""
    error = json.loads(answered[2])["error"]
    assert answered[0] == error["code"]
    return answered[0], error["type"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.9.8.7:80", "[::1]:8181", "catalog.example.org", "Catalog.Example.org.:443"]
)
async def test_hosts_of_the_server_pass(exchange: Exchange, host: str) -> None:
    """Loopback and the configured hosts, with any port and case."""
    assert 200 == (await exchange(request("GET", host=host)))[0]
    assert 200 == (await exchange(request("DELETE", host=host)))[0]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8181", "localhost.evil.example", "127.0.0.1.evil.example", "127.1", "2130706433", "10.0.0.1", "0.0.0.0",
     "", "[::1", "[::2]", "catalog.example.org.evil.example", "user@localhost", "localhost:x", "localhost/x"],
)  # fmt: skip
async def test_a_foreign_host_is_refused_for_reads_too(exchange: Exchange, host: str) -> None:
    """With DNS rebinding a page's own host name resolves to this server, and the Host header contains that name."""
    for method in ("GET", "DELETE"):
        answered = await exchange(request(method, host=host))
        assert (403, "ForbiddenException") == refused(answered)
        assert "ICECORE_ALLOWED_HOSTS" in json.loads(answered[2])["error"]["message"]
        assert b"evil" not in answered[2]
    assert 403 == (await exchange(b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n"))[0]
    assert 403 == (await exchange(b"GET /nowhere HTTP/1.1\r\nHost: evil.example\r\n\r\n"))[0]


@pytest.mark.parametrize(
    "authority", ["evil.example", "evil.example:8181", "user@localhost", "localhost:x", "127.0.0.1.evil.example", "", "[::2]"]
)
async def test_the_host_of_an_absolute_target_takes_the_place_of_host(exchange: Exchange, authority: str) -> None:
    """RFC 9112, 3.2.2: the server uses it and ignores Host, as a proxy does."""
    for method, path in (("GET", "/health"), ("GET", "/v1/thing"), ("DELETE", "/v1/thing"), ("GET", "?a"), ("GET", "")):
        foreign = f"{method} http://{authority}{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert (await exchange(foreign.encode()))[0] in (400, 403)
    own = f"GET HTTP://Catalog.Example.org:80/v1/thing HTTP/1.1\r\nHost: {authority or 'evil.example'}\r\n\r\n"
    assert 200 == (await exchange(own.encode()))[0]


async def test_the_origin_of_a_change_is_compared_with_the_host_of_an_absolute_target(exchange: Exchange) -> None:
    """The page belongs to the server of the target, which may differ from Host."""
    change = "DELETE http://localhost/v1/thing HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://{}\r\n\r\n"
    assert 200 == (await exchange(change.format("localhost").encode()))[0]
    assert 403 == (await exchange(change.format("127.0.0.1").encode()))[0]


async def test_http_1_0_may_omit_host(exchange: Exchange) -> None:
    """Health checks of load balancers do; browsers never."""
    assert 200 == (await exchange(b"GET /health HTTP/1.0\r\n\r\n"))[0]
    assert 400 == (await exchange(b"GET /health HTTP/1.1\r\n\r\n"))[0]


def asked(address: str, host: str) -> SimpleNamespace:
    """A request to that address of the server; only loopback addresses are reachable in tests."""
    headers, protocol = CIMultiDict({"Host": host}), SimpleNamespace(sockname=(address, 8181))
    return SimpleNamespace(version=HttpVersion11, headers=headers, method="GET", raw_path="/", body_exists=False, protocol=protocol)


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.5", "10.0.0.5"), ("10.0.0.5", "10.0.0.5:8181"), ("fe80::1%eth0", "[fe80::1]:8181"), ("2001:db8::1", "[2001:DB8:0::1]")],
)
def test_the_address_of_the_connection_is_a_host_of_the_server(address: str, host: str) -> None:
    """A server bound to all addresses is reached by each of them, but not under another machine's address."""
    rules: Any = OriginRules()
    rules.check(asked(address, host))
    for other in ("10.0.0.6", "2001:db8::2"):
        with pytest.raises(Forbidden):
            rules.check(asked(other, host))


def test_hosts_that_were_seen_are_not_all_remembered() -> None:
    """A client that sends a new host each time must not exhaust the memory."""
    rules: Any = OriginRules()
    for number in range(300):
        with pytest.raises(Forbidden):
            rules.check(asked("127.0.0.1", f"{number}.example"))
    assert len(rules._known) <= 256


def test_a_host_header_is_its_name_without_port() -> None:
    """And None where it is malformed."""
    assert "::1" == host_name("[::1]:80")
    assert "a.b" == host_name("A.b.:80")
    for malformed in ("", ":80", "[x]", "a b", "a:b", "a@b", "."):
        assert host_name(malformed) is None


@pytest.mark.parametrize(
    "headers",
    [
        ["Origin: https://evil.example"],
        ["Origin: null"],
        ["Origin: "],
        ["Origin: http://localhost:3000"],
        ["Origin: http://127.0.0.1"],
        ["Origin: http://127.0.0.1:8181.evil.example"],
        ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-site"],
        ["Origin: http://127.0.0.1:8181", "Sec-Fetch-Site: same-site"],
    ],
)
async def test_a_page_of_another_origin_changes_nothing(exchange: Exchange, headers: list[str]) -> None:
    """With a body or without one."""
    for method in ("POST", "DELETE", "PUT", "OPTIONS"):
        assert (403, "ForbiddenException") == refused(await exchange(request(method, *headers)))
    body = request("POST", *headers, "Content-Type: application/json", body=b"{}")
    assert (403, "ForbiddenException") == refused(await exchange(body))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Origin: http://127.0.0.1:8181", "Sec-Fetch-Site: same-origin"],
        ["Origin: https://127.0.0.1:8181"],
        ["Origin: HTTP://127.0.0.1:8181"],
        ["Origin: HTTPS://App.Example.Org", "Sec-Fetch-Site: cross-site"],
        ["Origin: https://public.example.org", "Sec-Fetch-Site: same-origin"],
        ["Origin: https://app.example.org", "Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: same-origin"],
        ["Sec-Fetch-Site: none"],
    ],
)
async def test_the_server_s_own_pages_and_permitted_origins_may_change(exchange: Exchange, headers: list[str]) -> None:
    """Also clients other than browsers, which send neither header."""
    assert 200 == (await exchange(request("DELETE", *headers)))[0]
    assert 200 == (await exchange(request("POST", *headers, "Content-Type: application/json", body=b"{}")))[0]


async def test_a_page_of_another_origin_without_a_host_changes_nothing(exchange: Exchange) -> None:
    """HTTP/1.0 may omit Host. Then no origin is the server's own."""
    assert (403, "ForbiddenException") == refused(await exchange(b"DELETE /v1/thing HTTP/1.0\r\nOrigin: http://localhost\r\n\r\n"))


async def test_a_page_of_another_origin_may_ask(exchange: Exchange) -> None:
    """The browser does not show the response to the page. Links to the server work."""
    for headers in (["Origin: https://evil.example"], ["Sec-Fetch-Site: cross-site"]):
        status, answered, _ = await exchange(request("GET", *headers))
        assert 200 == status
        assert "access-control-allow-origin" not in answered
        assert 405 == (await exchange(request("HEAD", *headers)))[0]


async def test_only_preflight_requests_are_answered_as_such(exchange: Exchange) -> None:
    """Other uses of OPTIONS are not, and invalid header names are not repeated."""
    origin, method = "Origin: https://app.example.org", "Access-Control-Request-Method: POST"
    assert 405 == (await exchange(request("OPTIONS", origin)))[0]
    assert 405 == (await exchange(request("OPTIONS", method)))[0]
    assert 405 == (await exchange(request("OPTIONS", "Origin: http://127.0.0.1:8181", method)))[0]
    for names in ("a b", "a;b", "a,,b", "<script>", "a" * 1_025):
        status, headers, _ = await exchange(request("OPTIONS", origin, method, f"Access-Control-Request-Headers: {names}"))
        assert 204 == status
        assert "access-control-allow-headers" not in headers


async def test_a_permitted_origin_gets_cors_responses(exchange: Exchange) -> None:
    """For preflight requests, responses and refusals. Without a permitted origin there are no CORS headers."""
    origin = "Origin: https://app.example.org"
    asked = ["Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type, idempotency-key"]
    status, headers, _ = await exchange(request("OPTIONS", origin, *asked))
    assert 204 == status
    assert "https://app.example.org" == headers["access-control-allow-origin"]
    assert "content-type, idempotency-key" == headers["access-control-allow-headers"]
    assert {"POST", "DELETE"} <= set(headers["access-control-allow-methods"].split(", "))
    for method, expected in (("GET", 200), ("POST", 200), ("PUT", 405)):
        status, headers, _ = await exchange(request(method, origin))
        assert (expected, "https://app.example.org") == (status, headers["access-control-allow-origin"])
        assert "Icecore-Position" in headers["access-control-expose-headers"]
        assert "Origin" in headers["vary"]
    for method in ("GET", "OPTIONS"):
        _, headers, _ = await exchange(request(method, "Origin: https://evil.example", *asked))
        assert not [name for name in headers if name.startswith("access-control")]
        assert "Origin" in headers["vary"]
    # A cache must not return a response without CORS headers to a page.
    assert "Origin" in (await exchange(request("GET")))[1].get("vary", "")


@pytest.mark.parametrize(
    "kind", ["", "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Content-Type: multipart/form-data"]
)
@pytest.mark.parametrize("method", ["POST", "DELETE", "GET"])
async def test_a_body_must_be_json(exchange: Exchange, method: str, kind: str) -> None:
    """A page may send these types without a preflight request. Also checked for operations without a body."""
    assert (400, "BadRequestException") == refused(await exchange(request(method, *([kind] if kind else []), body=b"{}")))
    chunked = [*([kind] if kind else []), "Transfer-Encoding: chunked"]
    assert (400, "BadRequestException") == refused(await exchange(request(method, *chunked) + b"2\r\n{}\r\n0\r\n\r\n"))


@pytest.mark.parametrize(
    "kind", ["text/json", "text/x+json", "application/jsonx", "application/json; charset=utf-16", "application/json; CHARSET = latin-1"]
)
async def test_other_types_and_charsets_are_not_json(exchange: Exchange, kind: str) -> None:
    assert (400, "BadRequestException") == refused(await exchange(request("POST", f"Content-Type: {kind}", body=b"{}")))


@pytest.mark.parametrize(
    "kind",
    ["application/json; charset=utf-8", 'application/json;charset="UTF-8"', "Application/JSON; version=1", "application/vnd.iceberg+json"],
)
async def test_json_may_be_described_more_closely(exchange: Exchange, kind: str) -> None:
    assert 200 == (await exchange(request("POST", f"Content-Type: {kind}", body=b"{}")))[0]


JSON = "Content-Type: application/json"
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /v1/thing\r\n\r\n",
        b"GET /v1/thing HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /v1/thing HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /v1/thing HTTP/1.2\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        request("POST", JSON, "Transfer-Encoding: gzip, chunked") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: nonsense, chunked") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: chunked, chunked") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: chunked, gzip") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: gzip") + b"{}",
        request("POST", JSON, "Transfer-Encoding: identity") + b"{}",
        request("POST", JSON, "Transfer-Encoding: ") + b"{}",
        request("POST", JSON, "Transfer-Encoding: ", body=b"{}"),
        request("POST", JSON, "Transfer-Encoding: chunked", "Content-Length: 2") + CHUNKS,
        request("POST", JSON, "Content-Length: 2", "Transfer-Encoding: chunked") + CHUNKS,
        request("POST", JSON, "Content-Length: 2", "Content-Length: 3") + b"{}",
        request("POST", JSON, "Content-Length: 2, 2") + b"{}",
        request("POST", JSON, "Content-Length: +2") + b"{}",
        request("POST", JSON, "Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKS,
        request("POST", JSON, "Transfer-Encoding: chunked") + CHUNKS.replace(b"\r\n", b"\n"),
        request("GET", "Transfer-Encoding: "),
        request("GET", "Transfer-Encoding: identity"),
        request("GET", "Transfer-Encoding: gzip").replace(b"HTTP/1.1", b"HTTP/1.0"),
        request("GET", "X-Folded: a", " b"),
        request("GET").replace(b"\r\n", b"\n"),
        request("GET", "X-Return: a\rb"),
        request("GET").replace(b"Host:", b"Host :"),
        request("GET", "Host: localhost"),
    ],
)  # fmt: skip
async def test_http_that_two_servers_may_read_differently_is_refused(exchange: Exchange, sent: bytes) -> None:
    """Unknown versions and transfer codings, two lengths of one body, folded lines, bare line feeds."""
    assert (400, "BadRequestException") == refused(await exchange(sent))
