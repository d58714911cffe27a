"""The edge: ids, errors, counted refusals, compression and time limits, with test operations."""

import asyncio
import gzip
import json
import logging
import uuid
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
import structlog
from aiohttp import web

from icecore.api.api_request import ApiRequest
from icecore.api.health import get_health
from icecore.api.limits import ApiLimits
from icecore.api.protocol import HEAD_BYTES_MAX
from icecore.api.request_metrics import REQUEST_METRICS
from icecore.api.routing import Operation
from icecore.api.server import build_app, build_runner
from icecore.domain.errors import CatalogError, CommitFailed, CommitStateUnknown, NoSuchTable, ServiceUnavailable
from tests.fixtures.empty_catalog import empty_catalog

LIMITS = ApiLimits(body_bytes_max=4_096, body_seconds_max=0.3, read_seconds_max=0.3, gzip_bytes_min=100, gzip_inline_bytes_max=1_000)
SECRET = "a-secret-that-must-not-leak"


async def respond(request: ApiRequest) -> web.Response:
    size = int(request.query.get("size", "2"))
    return await request.json_bytes(b'"' + b"x" * (size - 2) + b'"', keep_compressed="keep" in request.query)


async def echo(request: ApiRequest) -> web.Response:
    body, _ = await request.read_body_fields()
    return await request.json_bytes(body)


async def fail(request: ApiRequest) -> web.Response:
    refusals: dict[str, Exception] = {
        "table": NoSuchTable("Table does not exist: a.b"),
        "conflict": CommitFailed("Requirement failed"),
        "away": ServiceUnavailable("The log is away", retry_after_seconds=2),
        "unknown": CommitStateUnknown("Look first"),
        "bug": RuntimeError(SECRET),
        "timeout": TimeoutError(SECRET),
    }
    raise refusals[request.query["as"]]


async def cancel(request: ApiRequest) -> web.Response:
    raise asyncio.CancelledError


async def dawdle(request: ApiRequest) -> web.Response:
    await asyncio.sleep(1.0)
    return await respond(request)


OPERATIONS = (
    Operation("getHealth", "GET", "/health", get_health, serves_head_method=True),
    Operation("read", "GET", "/catalog/v1/read", respond),
    Operation("echo", "POST", "/catalog/v1/echo", echo),
    Operation("fail", "GET", "/catalog/v1/fail", fail),
    Operation("failHead", "HEAD", "/catalog/v1/fail", fail),
    Operation("mutate", "POST", "/catalog/v1/fail", fail),
    Operation("commit", "POST", "/catalog/v1/commit", fail, commits=True),
    Operation("cancelled", "POST", "/catalog/v1/cancelled", cancel),
    Operation("slowRead", "GET", "/catalog/v1/slow", dawdle),
    Operation("waitingRead", "GET", "/history/v1/slow", dawdle, long_lived=True, of_server=True),
    Operation("slowMutation", "POST", "/catalog/v1/slow", dawdle),
    Operation("slowPostThatReads", "POST", "/catalog/v1/slow-read", dawdle, safe=True),
)


@pytest_asyncio.fixture
async def app() -> web.Application:
    return build_app(empty_catalog(LIMITS), OPERATIONS)


@pytest_asyncio.fixture
async def port(app: web.Application) -> AsyncIterator[int]:
    runner = build_runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture
async def client(port: int) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", auto_decompress=False) as session:
        yield session


async def error_of(response: aiohttp.ClientResponse) -> tuple[int, str, str]:
    assert "application/json" == response.headers["Content-Type"]
    error = (await response.json())["error"]
    assert {"message", "type", "code"} == set(error)
    assert response.status == error["code"]
    return error["code"], error["type"], error["message"]


@pytest.mark.parametrize("base", ["/v1", "/catalog/v1"])
async def test_operations_are_served_below_both_bases(client: aiohttp.ClientSession, base: str) -> None:
    """`/catalog/v1` and `/v1` are the same."""
    async with client.get(f"{base}/read") as response:
        assert (200, b'""') == (response.status, await response.read())


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/fail?as=table", (404, "NoSuchTableException", "Table does not exist: a.b")),
        ("POST", "/v1/commit?as=conflict", (409, "CommitFailedException", "Requirement failed")),
        ("POST", "/v1/commit?as=unknown", (500, "CommitStateUnknownException", "Look first")),
        ("GET", "/v1/nowhere", (404, "NotFoundException", "Path does not exist: /v1/nowhere")),
        ("GET", "/v1/", (404, "NotFoundException", "Path does not exist: /v1/")),
        ("GET", "/", (404, "NotFoundException", "Path does not exist: /")),
        ("GET", "/catalog/v1/nowhere", (404, "NotFoundException", "Path does not exist: /catalog/v1/nowhere")),
        ("GET", "/health/", (404, "NotFoundException", "Path does not exist: /health/")),
        ("POST", "/v1/read", (405, "MethodNotAllowedException", "Method not allowed: POST")),
        ("DELETE", "/health", (405, "MethodNotAllowedException", "Method not allowed: DELETE")),
    ],
)
async def test_a_refusal_is_an_error_model(client: aiohttp.ClientSession, method: str, path: str, expected: tuple[int, str, str]) -> None:
    """Status, type and message, whether a command or the routes refuse."""
    async with client.request(method, path) as response:
        assert expected == await error_of(response)


@pytest.mark.parametrize(
    ("method", "path", "status", "type_"),
    [
        ("GET", "/v1/fail?as=bug", 500, "InternalServerError"),
        ("POST", "/v1/fail?as=bug", 500, "InternalServerError"),
        ("POST", "/v1/commit?as=bug", 500, "CommitStateUnknownException"),
        ("GET", "/v1/fail?as=timeout", 503, "ServiceUnavailableException"),
        ("POST", "/v1/fail?as=timeout", 500, "InternalServerError"),
        ("POST", "/v1/commit?as=timeout", 500, "CommitStateUnknownException"),
    ],
)
async def test_a_fault_of_ours_says_nothing_and_is_logged(
    client: aiohttp.ClientSession, method: str, path: str, status: int, type_: str
) -> None:
    """For a commit, the error is CommitStateUnknown. The trace is only in the log."""
    with structlog.testing.capture_logs() as logs:
        async with client.request(method, path, headers={"X-Request-Id": "the-id"}) as response:
            assert (status, type_) == (await error_of(response))[:2]
            assert SECRET not in await response.text()
    assert ["the-id"] == [entry["request_id"] for entry in logs if entry["event"] == "request_failed"]
    assert SECRET in [str(entry["exc_info"]) for entry in logs if entry["event"] == "request_failed"]


async def test_an_error_to_head_has_no_body(client: aiohttp.ClientSession) -> None:
    """Status and request id only."""
    async with client.head("/v1/fail?as=table") as response:
        assert (404, b"") == (response.status, await response.read())
        assert response.headers["X-Request-Id"]


async def test_retry_after_is_sent_where_the_refusal_names_it(client: aiohttp.ClientSession) -> None:
    """A 405 has the permitted methods."""
    async with client.get("/v1/fail?as=away") as response:
        assert (503, "2") == (response.status, response.headers["Retry-After"])
    async with client.post("/v1/read") as response:
        assert (405, "GET") == (response.status, response.headers["Allow"])


@pytest.mark.parametrize("sane", ["abc", "0b9d4a5c-7e1f", "a.b_c:d-1", "x" * 128])
async def test_a_sane_request_id_is_kept(client: aiohttp.ClientSession, sane: str) -> None:
    """On success and on refusal."""
    for path in ("/v1/read", "/v1/nowhere", "/health"):
        async with client.get(path, headers={"X-Request-Id": sane}) as response:
            assert sane == response.headers["X-Request-Id"]


@pytest.mark.parametrize("forged", ["", "a b", 'a"b', "a;b", "x" * 129, "é", "{}", "a/b"])
async def test_any_other_request_id_is_replaced(client: aiohttp.ClientSession, forged: str) -> None:
    """By a new UUIDv7, so that it cannot forge a log line."""
    async with client.get("/v1/read", headers={"X-Request-Id": forged}) as response:
        assert 7 == uuid.UUID(response.headers["X-Request-Id"]).version


async def test_refusals_are_counted_by_type(client: aiohttp.ClientSession, app: web.Application) -> None:
    """For the metrics; successes are not counted."""
    for path in ("/v1/fail?as=table", "/v1/fail?as=table", "/v1/nowhere", "/v1/read"):
        async with client.get(path):
            pass
    assert {"NoSuchTableException": 2, "NotFoundException": 1} == app[REQUEST_METRICS].errors


async def test_neither_body_nor_query_nor_authorization_is_logged(client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    """All three can contain credentials."""
    caplog.set_level(logging.INFO, logger="icecore.api")
    with structlog.testing.capture_logs() as logs:
        async with client.post(f"/v1/echo?token={SECRET}", json={"a": SECRET}, headers={"Authorization": f"Bearer {SECRET}"}) as response:
            assert 200 == response.status
        async with client.post("/v1/echo", data=SECRET) as response:
            assert 400 == response.status
    assert [200, 400] == [entry["status"] for entry in logs]
    assert SECRET not in repr(logs)


async def test_the_error_and_the_beginning_of_the_path_are_logged(client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    """A client chooses the length of a path."""
    caplog.set_level(logging.INFO, logger="icecore.api")
    with structlog.testing.capture_logs() as logs:
        (await client.get(f"/v1/{'x' * 1_000}")).release()
        (await client.post("/v1/echo", json={})).release()
    refused, answered = logs
    assert ("NotFoundException", f"/v1/{'x' * 252}") == (refused["error"], refused["path"])
    assert ("/v1/echo", False) == (answered["path"], "error" in answered)


TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("traceparent", "trace_id"),
    [
        (f"00-{TRACE_ID}-00f067aa0ba902b7-01", TRACE_ID),
        (f"cc-{TRACE_ID}-00f067aa0ba902b7-01-what-comes-later", TRACE_ID),
        (f"00-{TRACE_ID.upper()}-00f067aa0ba902b7-01", None),
        (f"ff-{TRACE_ID}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE_ID}-{'0' * 16}-01", None),
        (f"00-{TRACE_ID}", None),
        (SECRET, None),
        (None, None),
    ],
)
@pytest.mark.parametrize(("path", "event"), [("/v1/echo", "request"), ("/v1/fail?as=bug", "request_failed")])
async def test_the_principal_is_logged(
    client: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, traceparent: str | None, trace_id: str | None, path: str, event: str
) -> None:
    """The principal, the client's address and the trace id, without other headers."""
    caplog.set_level(logging.INFO, logger="icecore.api")
    headers = {"X-Forwarded-For": SECRET} | ({} if traceparent is None else {"traceparent": traceparent})
    with structlog.testing.capture_logs() as logs:
        (await client.post(path, json={}, headers=headers)).release()
    [entry] = [entry for entry in logs if entry["event"] == event]
    assert ("anonymous", "127.0.0.1", trace_id) == (entry["actor"], entry["client"], entry.get("trace_id"))
    del entry["event"], entry["log_level"]
    entry.pop("exc_info", None)
    assert SECRET not in repr(entry)


async def test_a_request_that_is_cancelled_is_logged_with_its_client(client: aiohttp.ClientSession) -> None:
    """As every request is. There is no response."""
    headers = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01", "X-Request-Id": "of-the-client"}
    with structlog.testing.capture_logs() as logs, pytest.raises(aiohttp.ClientError):
        await client.post("/v1/cancelled", json={}, headers=headers)
    [entry] = [entry for entry in logs if entry["event"] == "request_cancelled"]
    expected = ("cancelled", "of-the-client", "anonymous", "127.0.0.1", TRACE_ID)
    assert expected == tuple(entry[name] for name in ("operation", "request_id", "actor", "client", "trace_id"))


@pytest.mark.parametrize("size", [100, 1_000, 1_001, 200_000])
@pytest.mark.parametrize("query", ["", "&keep"])
async def test_responses_are_compressed_for_clients_that_accept_gzip(client: aiohttp.ClientSession, size: int, query: str) -> None:
    """The decompressed bytes are the plain ones, inline and in a thread, cached and not."""
    for _ in range(2):
        async with client.get(f"/v1/read?size={size}{query}", headers={"Accept-Encoding": "gzip, x-gzip, deflate"}) as response:
            assert "gzip" == response.headers["Content-Encoding"]
            assert size == len(json.loads(gzip.decompress(await response.read()))) + 2


@pytest.mark.parametrize(
    ("size", "accepted"), [(99, "gzip"), (100, "identity"), (100, "deflate, br"), (100, "gzip;q=0"), (100, "gzip; q=0.0, deflate")]
)
async def test_other_responses_are_not_compressed(client: aiohttp.ClientSession, size: int, accepted: str) -> None:
    """Small ones, and those for clients that do not take gzip."""
    async with client.get(f"/v1/read?size={size}", headers={"Accept-Encoding": accepted}) as response:
        assert "Content-Encoding" not in response.headers
        assert size == len(await response.read())


async def test_a_body_over_the_limit_is_refused_by_its_length_and_by_its_bytes(client: aiohttp.ClientSession) -> None:
    """With and without Content-Length."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 1_000

    expected = (413, "PayloadTooLargeException", "Invalid body: longer than 4096 bytes")
    for data in (b" " * 5_000, pieces()):
        async with client.post("/v1/echo", data=data, headers={"Content-Type": "application/json"}) as response:
            assert expected == await error_of(response)


async def test_a_compressed_body_is_refused_unread(client: aiohttp.ClientSession) -> None:
    """A small body could expand to gigabytes."""
    bomb = gzip.compress(b" " * 3_000_000)
    async with client.post("/v1/echo", data=bomb, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}) as response:
        assert (415, "UnsupportedMediaTypeException") == (await error_of(response))[:2]


async def test_a_read_that_takes_too_long_is_503_and_a_mutation_is_not_cut(client: aiohttp.ClientSession) -> None:
    """The outcome of an interrupted commit would be unknown. A read that waits for events has its own timeouts."""
    for method, path in (("GET", "/v1/slow"), ("POST", "/v1/slow-read")):
        async with client.request(method, path) as response:
            assert (503, "ServiceUnavailableException") == (await error_of(response))[:2]
    for method, path in (("POST", "/v1/slow"), ("GET", "/history/v1/slow")):
        async with client.request(method, path) as response:
            assert 200 == response.status


async def exchange(port: int, request: bytes) -> bytes:
    """The server's response to raw bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()
        await writer.wait_closed()


ECHO = b"POST /v1/echo HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status", "type_"),
    [
        (b"nonsense\r\n\r\n", 400, "BadRequestException"),
        (b"GET /v1/\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "BadRequestException"),
        (b"GET /v1/\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "BadRequestException"),
        (b"GET /v1/" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "BadRequestException"),
        (f"GET /v1/read HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthori\x00zation: {SECRET}\r\n\r\n".encode(), 400, "BadRequestException"),
        (ECHO + b"Content-Length: -1\r\n\r\n", 400, "BadRequestException"),
        (ECHO + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "BadRequestException"),
        (ECHO + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", 400, "BadRequestException"),
        (ECHO + b"Expect: miracles\r\nContent-Length: 2\r\n\r\n{}", 400, "BadRequestException"),
        (ECHO + b"Content-Length: 99999999999999\r\n\r\n{}", 413, "PayloadTooLargeException"),
        (ECHO + b"Content-Length: 5\r\n\r\n{}", 408, "RequestTimeoutException"),
        (b"GET /%76%31/read HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404, "NotFoundException"),
        (b"GET //v1/read HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404, "NotFoundException"),
        (b"GET /v1/../v1/read HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 404, "NotFoundException"),
    ],
)
async def test_broken_http_is_refused_in_the_same_form(port: int, request_bytes: bytes, status: int, type_: str) -> None:
    """With a request id, and without repeating what was sent."""
    answered = await exchange(port, request_bytes)
    head, _, body = answered.partition(b"\r\n\r\n")
    assert str(status).encode() == head.split(b" ")[1]
    assert b"\r\nX-Request-Id: " in head
    assert (status, type_) == (json.loads(body)["error"]["code"], json.loads(body)["error"]["type"])
    assert SECRET.encode() not in answered


async def test_malformed_http_is_logged_with_its_client(port: int) -> None:
    """Without what was sent."""
    with structlog.testing.capture_logs() as logs:
        await exchange(port, f"GET /v1/read HTTP/1.1\r\nAuthori\x00zation: {SECRET}\r\n\r\n".encode())
    [entry] = [entry for entry in logs if entry["event"] == "request_malformed"]
    assert "127.0.0.1" == entry["client"]
    assert SECRET not in repr(entry)


async def test_head_is_answered_like_get_where_the_operation_says_so(client: aiohttp.ClientSession) -> None:
    """Load balancers use it for /health. Other operations have their own HEAD or none."""
    async with client.get("/health") as response:
        length = len(await response.read())
    async with client.head("/health") as response:
        assert (200, b"", str(length)) == (response.status, await response.read(), response.headers["Content-Length"])
    async with client.head("/v1/read") as response:
        assert (405, "GET") == (response.status, response.headers["Allow"])


async def test_expect_100_continue_is_met(port: int) -> None:
    """curl sends it with larger bodies."""
    answered = await exchange(port, ECHO + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
    assert answered.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


async def test_the_absolute_form_of_a_request_line_is_understood(port: int) -> None:
    """Proxies send it."""
    answered = await exchange(port, b"GET http://localhost:1/v1/read HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 200 OK\r\n")


LAKEKEEPERS = {
    "CatalogAlreadyBootstrapped", "TermsOfUseNotAccepted", "CreateWarehouseStorageProfileOverlap", "MaintenanceModeError",
    "GetMyUserWithoutToken", "UserNotFound",
}  # fmt: skip
"""Types that Lakekeeper gives to errors of its management API."""


async def test_every_error_is_a_catalog_error_with_its_own_form() -> None:
    """The domain's errors all have a status in 400..599 and an Iceberg-style type, or Lakekeeper's."""
    for refusal in CatalogError.__subclasses__():
        assert 400 <= refusal.status < 600
        assert refusal.type.endswith(("Exception", "InternalServerError")) or refusal.type in LAKEKEEPERS


async def test_heads_that_come_in_parts_are_bounded_each_by_itself(port: int) -> None:
    """A connection may send any number of requests in parts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    first = b"GET /v1/read HTTP/1.1\r\nHost: localhost\r\nX-Filler: " + b"x" * 8_000 + b"\r\n"
    for _ in range(2 * HEAD_BYTES_MAX // len(first)):
        writer.write(first)
        await writer.drain()
        await asyncio.sleep(0.01)
        writer.write(b"\r\n")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        assert b"200" == head.split(b" ")[1]
        await reader.readexactly(2)
    writer.close()
