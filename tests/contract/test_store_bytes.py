"""A store that sends more than it announced: the content is counted, whatever the response's headers say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from icecore.domain.errors import PayloadTooLarge
from icecore.storage.credentials import parse_storage_credential
from icecore.storage.object_store import open_store
from icecore.storage.profiles import parse_storage_profile
from tests.fixtures.object_stores import S3_CREDENTIAL, HttpServer, odd_s3_profile

MEBIBYTE = 1024 * 1024
ANNOUNCED_BYTES = 100
SENT_MEBIBYTES = 64
BYTES_MAX = MEBIBYTE


class UnderstatingServer(HttpServer):
    """Announces 100 bytes, sends 64 MiB in chunks, and counts the chunks that are read."""

    def __init__(self) -> None:
        self.sent_mebibytes = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("ETag", '"0"')
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                self.send_header("Content-Length", str(ANNOUNCED_BYTES))
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.close_connection = True
                with contextlib.suppress(ConnectionError):
                    for _ in range(SENT_MEBIBYTES):
                        self.wfile.write(b"%x\r\n" % MEBIBYTE + b" " * MEBIBYTE + b"\r\n")
                        server.sent_mebibytes += 1
                    self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *args: object) -> None:
                del args

        super().__init__(Handler)


@pytest.fixture
def understating_server() -> Iterator[UnderstatingServer]:
    opened = UnderstatingServer()
    yield opened
    opened.close()


async def test_no_more_is_read_than_was_asked_for(understating_server: UnderstatingServer) -> None:
    """The store can send only as much as the buffers of sockets and the client hold."""
    profile = parse_storage_profile(odd_s3_profile(understating_server.endpoint))
    store = open_store(profile, parse_storage_credential(S3_CREDENTIAL))
    with pytest.raises(PayloadTooLarge):
        await store.get(profile.base.child("t", "metadata", "00000-a.metadata.json"), bytes_max=BYTES_MAX)
    understating_server.close()
    assert SENT_MEBIBYTES // 2 > understating_server.sent_mebibytes
