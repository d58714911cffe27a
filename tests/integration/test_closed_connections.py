"""Closed connections leave nothing in memory, neither received parts of a body nor unsent parts of a response."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp.streams import StreamReader

from icecore.api.piece_payload import PiecePayload
from icecore.api.protocol import EdgeProtocol
from icecore.http_settings import HttpSettings
from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.fixtures.leftovers import nothing_left, objects_of
from tests.fixtures.rest_client import RestClient

MEBIBYTE = 1024 * 1024
STALL_SECONDS = 1.0
ACCEPTED_SECONDS_MAX = 10.0


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[CatalogServer]:
    """With a namespace `wide`, whose response has 6 MB."""
    with served_catalog(database, tmp_path / "warehouse", http=HttpSettings(stall_seconds_max=STALL_SECONDS)) as server:
        client = RestClient(server.url)
        properties = {f"p{number}": "x" * 60_000 for number in range(100)}
        assert 200 == client.call("POST", "/namespaces", {"namespace": ["wide"], "properties": properties}).status
        client.close()
        yield server


@contextmanager
def connected(server: CatalogServer) -> Iterator[socket.socket]:
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        opened.settimeout(20)
        parts = urlsplit(server.url)
        opened.connect((parts.hostname, parts.port))
        yield opened


@contextmanager
def accepted(server: CatalogServer) -> Iterator[socket.socket]:
    """Before that, nothing of the request is in memory."""
    before = set(objects_of(EdgeProtocol))
    with connected(server) as opened:
        end = time.monotonic() + ACCEPTED_SECONDS_MAX
        while not objects_of(EdgeProtocol).keys() - before:
            assert time.monotonic() < end, "not accepted"
            time.sleep(0.01)
        yield opened


HEAD = b"POST /catalog/v1/demo/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
LOAD = b"GET /catalog/v1/demo/namespaces/wide HTTP/1.1\r\nHost: localhost\r\n\r\n"


WAIT = b"GET /history/v1/wait?position=999999&wait-seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"

SENT = {
    "idle": b"",
    "head": b"GET /health HTTP/1.1\r\nHost:",
    "body": HEAD + b" " * MEBIBYTE,
    "response": LOAD,
    "requests": WAIT + LOAD + HEAD + b" " * MEBIBYTE,
}
ENDED_BY_SERVER = ("head", "body", "response")


@pytest.mark.parametrize(
    ("sent", "ended_by"),
    [(sent, "client") for sent in SENT] + [(sent, "server") for sent in ENDED_BY_SERVER],
)
def test_of_a_connection(server: CatalogServer, sent: str, ended_by: str) -> None:
    """Closed by the client, or by the server after a timeout."""
    with ExitStack() as opened, nothing_left(EdgeProtocol, StreamReader, PiecePayload):
        client = opened.enter_context(accepted(server))
        client.sendall(SENT[sent])
        if sent == "response":
            assert b"HTTP/1.1 200" == client.recv(12)
        if ended_by == "client":
            client.close()
