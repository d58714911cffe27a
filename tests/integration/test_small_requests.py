"""Clients that send many small requests without waiting for responses: others are still answered in limited time."""

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.fixtures.processor import processor_seconds, seconds_per_small_request
from tests.integration.test_slow_clients import connected, push, serves, statuses
from tests.servers.icecore import Icecore, icecore, open_directory

CONNECTIONS = 200
ASKED_SECONDS = 3.0
SMALL_REQUESTS_MAX = 5 * CONNECTIONS
"""Limit on the server's processor time while one client waits for a response: that of so many small requests."""

POST = (
    b"POST /catalog/v1/demo/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Icecore]:
    with open_directory() as directory, icecore(directory / "data") as opened:
        yield opened


@pytest.fixture(scope="module")
def processor_seconds_max(server: Icecore) -> float:
    return SMALL_REQUESTS_MAX * seconds_per_small_request(server)


def most_while_asked(server: Icecore, seconds: float) -> float:
    """The server's largest processor time between a request and its response."""
    connection, most = http.client.HTTPConnection(urlsplit(server.uri).netloc, timeout=60), 0.0
    with contextlib.closing(connection):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = processor_seconds(server.process_id)
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read()
            assert 200 == response.status
            most = max(most, processor_seconds(server.process_id) - before)
    return most


@pytest.mark.parametrize(
    "request_line", [b"DELETE /catalog/v1/demo/nowhere", b"GET /catalog/v1/config?warehouse=demo"], ids=["refused", "answered"]
)
def test_requests_sent_without_waiting_for_responses_leave_others_their_turns(
    server: Icecore, processor_seconds_max: float, request_line: bytes
) -> None:
    """200 connections with 900 requests each."""
    requests = (request_line + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * 900
    with ExitStack() as opened:
        sockets = [connected(server, opened) for _ in range(CONNECTIONS)]
        sending = threading.Thread(target=push, args=(sockets, requests, ASKED_SECONDS))
        sending.start()
        most = most_while_asked(server, ASKED_SECONDS)
        sending.join()
    assert most < processor_seconds_max


def test_all_requests_that_are_sent_at_once_are_answered_in_their_order(server: Icecore) -> None:
    with ExitStack() as opened:
        sockets = [connected(server, opened) for _ in range(8)]
        paths = [f"/catalog/v1/demo/namespaces/n{number:04}" for number in range(300)]
        for each in sockets:
            each.sendall(
                b"".join(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {path[-5:]}\r\n\r\n".encode() for path in paths)
            )
        for each in sockets:
            answered = b""
            while answered.count(b"\r\n\r\n") < len(paths):
                received = each.recv(64 * 1024)
                assert received
                answered += received
            ids = [line.partition(b": ")[2].decode() for line in answered.split(b"\r\n") if line.lower().startswith(b"x-request-id")]
            assert [path[-5:] for path in paths] == ids


def test_bodies_in_chunks_of_one_byte_are_refused(server: Icecore, processor_seconds_max: float) -> None:
    with ExitStack() as opened:
        sockets = [connected(server, opened) for _ in range(20)]
        sending = threading.Thread(target=push, args=(sockets, POST + b"1\r\n \r\n" * 500_000, ASKED_SECONDS))
        sending.start()
        most = most_while_asked(server, ASKED_SECONDS)
        sending.join()
        assert set(statuses(sockets)) <= {400}
        one = connected(server, opened)
        one.sendall(POST.removesuffix(b"\r\n") + b"Expect: 100-continue\r\n\r\n")
        assert [100] == statuses([one])
        one.sendall(b"1\r\n \r\n" * 4_000)
        assert [400] == statuses([one])
        assert b"chunks are too small" in one.recv(4_096)
        serves(server)
    assert most < processor_seconds_max


@pytest.mark.parametrize(("chunk_bytes", "name"), [(1, "few"), (200, "small"), (100_000, "large")])
def test_bodies_in_chunks_are_read(server: Icecore, chunk_bytes: int, name: str) -> None:
    """Some small chunks are permitted, and large ones may arrive in pieces of any size."""
    body = f'{{"namespace":["{name}"],"properties":{{"a":"{"x" * min(900_000, chunk_bytes * 1_500)}"}}}}'.encode()
    chunks = (body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes))
    sent = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    with ExitStack() as opened:
        one = connected(server, opened)
        # The bytes of each body are counted separately. The existing namespace results in 409.
        for status in (200, 409):
            one.sendall(POST + sent + b"0\r\n\r\n")
            response = http.client.HTTPResponse(one)
            response.begin()
            response.read()
            assert status == response.status
