"""The client's address behind trusted proxies, over real connections."""

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
import pytest_asyncio
import structlog
from aiohttp import web

from icecore.api import proxies
from icecore.api.api_request import ApiRequest
from icecore.api.limits import ApiLimits
from icecore.api.proxies import ForwardedHeader, TrustedProxies
from icecore.api.routing import Operation
from icecore.api.server import build_app, build_runner
from tests.fixtures.empty_catalog import empty_catalog

SELF = "127.0.0.1"
"""The address of the tests' connections."""
FOR = "X-Forwarded-For"
LINE_LENGTH = 15_000
"""Nearly the longest line of a header that the server accepts."""


async def respond(request: ApiRequest) -> web.Response:
    return await request.json({})


OPERATIONS = (Operation("change", "POST", "/change", respond),)
LoggedClient = Callable[..., Awaitable[str | None]]


@pytest_asyncio.fixture
async def logged_client(caplog: pytest.LogCaptureFixture) -> AsyncIterator[LoggedClient]:
    """Sends a request with these headers to a server that trusts these proxies, and returns the client in its log."""
    caplog.set_level(logging.INFO, logger="icecore.api")
    runners = []

    async def send(proxies: TrustedProxies, headers: list[tuple[str, str]], listening: socket.socket | None = None) -> str | None:
        runner = build_runner(build_app(empty_catalog(ApiLimits()), OPERATIONS, trusted_proxies=proxies))
        runners.append(runner)
        await runner.setup()
        await web.SockSite(runner, listening or socket.create_server((SELF, 0))).start()
        url = f"http://{SELF}:{runner.addresses[0][1]}/change"
        with structlog.testing.capture_logs() as logs:
            async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as response:
                assert 200 == response.status
        [entry] = [entry for entry in logs if entry["event"] == "request"]
        client: str | None = entry["client"]
        return client

    yield send
    for runner in runners:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("networks", "header", "sent", "client"),
    [
        ([], FOR, [(FOR, "192.0.2.1")], SELF),
        (["10.0.0.0/8"], FOR, [(FOR, "192.0.2.1")], SELF),
        ([SELF], FOR, [], SELF),
        ([SELF], FOR, [(FOR, "192.0.2.1")], "192.0.2.1"),
        (["127.0.0.0/8"], FOR, [(FOR, "2001:db8::1")], "2001:db8::1"),
        # Whoever is no trusted proxy says nothing of others.
        ([SELF], FOR, [(FOR, "192.0.2.1, 192.0.2.2")], "192.0.2.2"),
        ([SELF, "10.0.0.0/8"], FOR, [(FOR, "192.0.2.1,192.0.2.2 , 10.0.0.7")], "192.0.2.2"),
        ([SELF], FOR, [(FOR, "192.0.2.1"), (FOR, "192.0.2.2")], "192.0.2.2"),
        ([SELF, "10.0.0.0/8"], FOR, [(FOR, "10.0.0.9, 10.0.0.7")], "10.0.0.9"),
        ([SELF], FOR, [(FOR, "192.0.2.1:4711")], "192.0.2.1"),
        ([SELF], FOR, [(FOR, "[2001:db8::1]:4711")], "2001:db8::1"),
        # Odd ones.
        ([SELF], FOR, [(FOR, "")], SELF),
        ([SELF], FOR, [(FOR, "unknown")], SELF),
        ([SELF], FOR, [(FOR, "192.0.2.1, ")], SELF),
        ([SELF], FOR, [(FOR, "192.0.2.1, <script>")], SELF),
        ([SELF], FOR, [(FOR, "999.0.2.1")], SELF),
        ([SELF], FOR, [(FOR, ",".join(["127.0.0.1"] * 1_000))], SELF),
        # The header that the proxies do not set is the client's.
        ([SELF], FOR, [("Forwarded", "for=192.0.2.1")], SELF),
        ([SELF], "Forwarded", [(FOR, "192.0.2.1")], SELF),
        ([SELF], "Forwarded", [("Forwarded", "for=192.0.2.1"), (FOR, "192.0.2.9")], "192.0.2.1"),
        ([SELF], "Forwarded", [("Forwarded", 'for=192.0.2.1;proto=https, for="[2001:db8::1]:80";by=10.0.0.1')], "2001:db8::1"),
        ([SELF], "Forwarded", [("Forwarded", "for=_hidden")], SELF),
        ([SELF], "Forwarded", [("Forwarded", "proto=https")], SELF),
        ([SELF], "Forwarded", [("Forwarded", '=;"')], SELF),
        ([SELF], "Forwarded", [("Forwarded", "for=192.0.2.1"), ("Forwarded", "FOR=192.0.2.2:80; proto=http")], "192.0.2.2"),
        ([SELF], "Forwarded", [("Forwarded", 'for=192.0.2.1;host="a,for=192.0.2.9;b\\""')], "192.0.2.1"),
        ([SELF], "Forwarded", [("Forwarded", 'by=", for=192.0.2.1')], "192.0.2.1"),
        ([SELF], "Forwarded", [("Forwarded", "for=192.0.2.1,")], SELF),
        ([SELF], "Forwarded", [("Forwarded", "for=192.0.2.1, proto=https")], SELF),
        # The zone of an address of IPv6 may be any text.
        ([SELF], FOR, [(FOR, "fe80::1%\u202ewon\x85 ti")], SELF),
        ([SELF], FOR, [(FOR, "fe80::1%" + "x" * 1_000)], SELF),
        ([SELF], FOR, [(FOR, "[fe80::1%eth0]:80")], SELF),
        ([SELF], "Forwarded", [("Forwarded", 'for="[fe80::1%eth0]"')], SELF),
    ],
)
async def test_the_client_in_the_log(
    logged_client: LoggedClient,
    networks: list[str],
    header: ForwardedHeader,
    sent: list[tuple[str, str]],
    client: str,
) -> None:
    assert client == await logged_client(TrustedProxies(networks, header), sent)


@pytest.mark.parametrize(("header", "element"), [(FOR, "{}"), ("Forwarded", "for={}"), ("Forwarded", 'for="{}";by="x,\\"y"')])
@pytest.mark.parametrize("lines", [1, 5])
async def test_only_the_end_of_the_header_is_read(
    logged_client: LoggedClient, header: ForwardedHeader, element: str, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client sends up to 75 KB of addresses of proxies. The last ones count."""
    read: list[str] = []
    address = proxies._address

    def counted(text: str) -> object:
        read.append(text)
        return address(text)

    monkeypatch.setattr(proxies, "_address", counted)
    trusting = TrustedProxies([SELF, "10.0.0.0/8"], header)
    own = element.format("10.10.10.10")
    many = [(header, ", ".join([own] * (LINE_LENGTH // (len(own) + 2))))] * lines
    assert "192.0.2.1" == await logged_client(trusting, [*many, (header, element.format("192.0.2.1"))])
    assert "10.10.10.10" == await logged_client(trusting, many)
    # Each of the connection and of the elements is compared with the networks too.
    assert len(read) <= 2 * (2 * proxies.PROXIES_MAX + 1)


@pytest.mark.parametrize("header", [FOR, "Forwarded"])
async def test_an_element_that_is_cut_is_not_read(logged_client: LoggedClient, header: ForwardedHeader) -> None:
    """Its end would be another address."""
    cut = "192.0.2.1".rjust(3_000, "1") if header == FOR else "for=192.0.2.1".rjust(3_000, "x")
    assert SELF == await logged_client(TrustedProxies([SELF], header), [(header, cut)])


async def test_an_ipv4_proxy_of_a_server_on_ipv6(logged_client: LoggedClient) -> None:
    """Its connection has the address ::ffff:127.0.0.1."""
    listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    assert "192.0.2.1" == await logged_client(TrustedProxies([SELF]), [(FOR, "192.0.2.1")], listening)
