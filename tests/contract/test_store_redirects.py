"""Redirects by a store: other hosts get no requests, and their content is not used."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import pytest

from icecore.domain.errors import ServiceUnavailable
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.locations import StorageLocation
from icecore.storage.object_store import ObjectStore, open_store
from icecore.storage.profiles import parse_storage_profile
from tests.fixtures.object_stores import S3_CREDENTIAL, HttpServer, OddS3Server, odd_s3_profile

PATH = "/latest/meta-data/credentials"
OTHER_FILE = b"a page that asks for a password"


class RedirectingServer(HttpServer):
    """Redirects every request to another URL, with a configured status."""

    def __init__(self, target: str | None) -> None:
        """target -- the URL of another server; None: this one, whose other paths have a file."""
        self.status = 307
        self.asked = 0
        self.followed: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if target is None and self.path == PATH:
                    server.followed.append(self.command)
                    self.send_response(200)
                    self.send_header("ETag", '"0"')
                    self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                    self.send_header("Content-Length", str(len(OTHER_FILE)))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(OTHER_FILE)
                    return
                server.asked += 1
                self.send_response(server.status)
                self.send_header("Location", f"{target or ''}{PATH}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names http.server looks for

            def log_message(self, *args: object) -> None:
                del args

        super().__init__(Handler)


@pytest.fixture
def redirecting_server(odd_s3_server: OddS3Server) -> Iterator[RedirectingServer]:
    """Redirects to a server that responds to every request, under another name of this host."""
    odd_s3_server.status = 200
    opened = RedirectingServer(odd_s3_server.endpoint.replace("127.0.0.1", "localhost"))
    yield opened
    opened.close()


ApiRequest = Callable[[ObjectStore, StorageLocation], Coroutine[Any, Any, object]]


CALLS: dict[str, ApiRequest] = {
    "get": lambda store, location: store.get(location),
    "put": lambda store, location: store.put_new(location, b"metadata"),
    "exists": lambda store, location: store.exists(location),
    "delete": lambda store, location: store.delete([location]),
}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", CALLS)
async def test_no_redirect_to_another_host_is_followed(
    redirecting_server: RedirectingServer, odd_s3_server: OddS3Server, status: int, call: str
) -> None:
    """The other server gets no request, and a put that was redirected fails."""
    redirecting_server.status = status
    profile = parse_storage_profile(odd_s3_profile(redirecting_server.endpoint))
    store = open_store(profile, parse_storage_credential(S3_CREDENTIAL))
    with pytest.raises(ServiceUnavailable) as refused:
        await CALLS[call](store, profile.base.child("t", "metadata", "00000-a.metadata.json"))
    assert redirecting_server.asked >= 1
    assert [] == odd_s3_server.seen
    assert "latest" not in refused.value.message
    assert "localhost" not in refused.value.message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["another port", "another path"])
async def test_no_put_counts_that_was_led_to_another_file(odd_s3_server: OddS3Server, status: int, to: str) -> None:
    """A gateway on the same host redirects a put to its log-in page with a 303, and the client gets the page as the put's response."""
    odd_s3_server.status, odd_s3_server.content_length = 200, len(OTHER_FILE)
    with closing(RedirectingServer(odd_s3_server.endpoint if to == "another port" else None)) as redirecting:
        redirecting.status = status
        profile = parse_storage_profile(odd_s3_profile(redirecting.endpoint))
        store = open_store(profile, parse_storage_credential(S3_CREDENTIAL))
        with pytest.raises(ServiceUnavailable):
            await store.put_new(profile.base.child("t", "metadata", "00000-a.metadata.json"), b"metadata")
    assert not {"PUT", "POST", "DELETE"} & {*redirecting.followed, *(request.method for request in odd_s3_server.seen)}


class ForgetfulServer(HttpServer):
    """Confirms a put with an ETag that is not the file's, without storing the file."""

    def __init__(self) -> None:
        server, self.asked = self, list[str]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                server.asked.append(self.command)
                self.send_response(200 if self.command == "PUT" else 404)
                self.send_header("ETag", '"0"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_PUT  # noqa: N815 - the name http.server looks for

            def log_message(self, *args: object) -> None:
                del args

        super().__init__(Handler)


async def test_no_put_counts_of_a_file_that_is_not_there() -> None:
    with closing(ForgetfulServer()) as server:
        profile = parse_storage_profile(odd_s3_profile(server.endpoint))
        store = open_store(profile, parse_storage_credential(S3_CREDENTIAL))
        with pytest.raises(ServiceUnavailable, match="does not have the object that was written"):
            await store.put_new(profile.base.child("t", "metadata", "00000-a.metadata.json"), b"metadata")
    assert ["PUT", "HEAD"] == server.asked


async def test_a_proxy_of_the_environment_is_still_used(odd_s3_server: OddS3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a machine reaches stores only through a proxy, the proxy decides which hosts are reachable."""
    odd_s3_server.status = 404
    profile = parse_storage_profile(odd_s3_profile("http://store.example:9000"))
    for name in ("ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", odd_s3_server.endpoint)
    assert not await open_store(profile, parse_storage_credential(S3_CREDENTIAL)).exists(profile.base.child("a"))
    (asked,) = odd_s3_server.seen
    assert "store.example" == urlsplit(f"//{asked.headers['host']}").hostname
