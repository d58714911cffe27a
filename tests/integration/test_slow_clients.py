"""Hundreds of clients that stop sending or reading: the memory and descriptors of a server process are limited, and it continues to
serve.
"""

import contextlib
import http.client
import json
import os
import resource
import selectors
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from icecore.listening import DESCRIPTORS_MAX
from tests.fixtures.processor import processor_seconds
from tests.fixtures.snapshots import snapshot_updates
from tests.fixtures.waiting import wait_for
from tests.long_form import LONG
from tests.servers.icecore import Icecore, icecore, open_directory

MEBIBYTE = 1024 * 1024
MEMORY_MEBIBYTES_MAX = 400
ATTACKERS = 300
DENSE_MEBIBYTES_MAX = 200
"""Additional memory for small bodies, of which a few are parsed at a time."""
WAITED_SECONDS_MAX = 1.5
"""Limit on a response during the attack, also on a busy machine."""
STALL_SECONDS = 3
RESPONSE_RATE_MIN = 4 * MEBIBYTE
"""High, so that the server sees the progress of a slow client: the kernel buffers some megabytes of a response."""
SMALL_READ_BYTES = 128 * 1024
DESCRIPTORS_AT_START = 512
LISTENING = 1
"""The server's own sockets among those of `open_connections`."""

SETTINGS = {"ICECORE_HTTP__STALL_SECONDS_MAX": str(STALL_SECONDS), "ICECORE_HTTP__RESPONSE_RATE_MIN": str(RESPONSE_RATE_MIN)}


@pytest.fixture(scope="module")
def server() -> Iterator[Icecore]:
    """One server for all attacks, so that leftovers accumulate (docs/decisions/0011)."""
    with (
        open_directory() as directory,
        icecore(directory / "data", environment=SETTINGS, descriptors=DESCRIPTORS_AT_START) as started,
    ):
        yield started


def memory_mebibytes(process_id: int) -> int:
    """The peak since the last reset."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


def resident_mebibytes(process_id: int) -> int:
    """The current value."""
    return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * resource.getpagesize() // MEBIBYTE


@contextmanager
def bounded_memory(server: Icecore, mebibytes_max: int = MEMORY_MEBIBYTES_MAX) -> Iterator[None]:
    """Asserts that the server's memory in the block stays below a worker's limit, or the given one."""
    Path(f"/proc/{server.process_id}/clear_refs").write_text("5")
    yield
    assert memory_mebibytes(server.process_id) < mebibytes_max


def call(server: Icecore, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.uri).netloc, timeout=30)
    with contextlib.closing(connection):
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, f"/catalog/v1/demo{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()


def connected(server: Icecore, opened: ExitStack, *, receive_bytes: int | None = None) -> socket.socket:
    each = opened.enter_context(socket.socket())
    if receive_bytes is not None:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    each.settimeout(30)
    parts = urlsplit(server.uri)
    each.connect((parts.hostname, parts.port))
    return each


def push(sockets: list[socket.socket], data: bytes, seconds: float) -> None:
    """Sends the same bytes on all connections, as far as they are accepted in the time."""
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            each.setblocking(False)
            selector.register(each, selectors.EVENT_WRITE, memoryview(data))
        end = time.monotonic() + seconds
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                try:
                    left = key.data[key.fileobj.send(key.data[: 256 * 1024]) :]
                except BlockingIOError:
                    continue
                except ConnectionError:
                    left = key.data[:0]
                if left:
                    selector.modify(key.fileobj, selectors.EVENT_WRITE, left)
                else:
                    selector.unregister(key.fileobj)


def statuses(sockets: list[socket.socket]) -> list[int]:
    """The statuses of the connections that were answered before they were closed."""
    found = []
    for each in sockets:
        each.settimeout(30)
        with contextlib.suppress(ConnectionError):
            head = each.recv(64)
            if head:
                found.append(int(head.split()[1]))
    return found


def serves(server: Icecore) -> None:
    """Checks that small requests are answered."""
    assert 200 == call(server, "POST", "/namespaces", {"namespace": [f"small_{time.monotonic_ns()}"]})[0]
    assert 200 == call(server, "GET", "/namespaces")[0]


def test_heads_that_no_client_ends(server: Icecore) -> None:
    """Headers of two megabytes are refused, and incomplete ones are closed in time."""
    header = b"X-Filler: " + b"x" * 16_000 + b"\r\n"
    with ExitStack() as opened, bounded_memory(server):
        large = [connected(server, opened) for _ in range(ATTACKERS)]
        push(large, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + header * 120, 2.0)
        small = connected(server, opened)
        small.sendall(b"GET /health HTTP/1.1\r\n")
        began = time.monotonic()
        while small.fileno() >= 0 and time.monotonic() - began < 20:
            with contextlib.suppress(ConnectionError):
                small.sendall(b"X: y\r\n")
            small.settimeout(0.2)
            try:
                if not small.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() - began < 4 * STALL_SECONDS
        assert set(statuses(large)) <= {400}
        serves(server)


def test_bodies_that_no_client_ends(server: Icecore) -> None:
    """300 incomplete bodies of 30 MB: some are held, others get 429, and those without progress 408."""
    body_bytes = 30 * MEBIBYTE
    kind = f"Content-Type: application/json\r\nContent-Length: {body_bytes}"
    head = f"POST /catalog/v1/demo/namespaces HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n"
    with ExitStack() as opened, bounded_memory(server):
        sockets = [connected(server, opened) for _ in range(ATTACKERS)]
        push(sockets, head.encode() + b" " * (body_bytes - 1), 3.0)
        serves(server)
        answered = statuses(sockets)
        assert {429, 408} == set(answered)
        serves(server)


def test_responses_that_no_client_reads(server: Icecore) -> None:
    """300 clients request a response of 12 MB and read nothing."""
    properties = {f"p{number}": "x" * 60_000 for number in range(100)}
    assert 200 == call(server, "POST", "/namespaces", {"namespace": ["wide"], "properties": properties})[0]
    assert 200 == call(server, "GET", "/namespaces/wide")[0]
    with ExitStack() as opened, bounded_memory(server):
        sockets = [connected(server, opened, receive_bytes=4_096) for _ in range(ATTACKERS)]
        for each in sockets:
            each.sendall(b"GET /catalog/v1/demo/namespaces/wide HTTP/1.1\r\nHost: localhost\r\n\r\n")
        serves(server)
        end = time.monotonic() + 30
        while call(server, "GET", "/namespaces/wide")[0] != 200:
            assert time.monotonic() < end, "responses that no client reads are still in memory"
            time.sleep(0.2)
        answered = statuses(sockets)
        assert {200, 429} == set(answered)
        assert ATTACKERS * 3 // 4 < answered.count(429)


REPEATS = 10


@pytest.mark.parametrize("asked", ["replay", "events"])
def test_responses_to_posts_that_change_nothing_and_that_no_client_reads(server: Icecore, asked: str) -> None:
    """Replays of a key, and pages of events: of ten responses of 8 MB as many are made as the budget permits, the others get 429."""
    assert 200 == call(server, "POST", "/namespaces", {"namespace": [asked]})[0]
    fields = [{"id": number, "name": f"c{number}", "type": "long", "required": False, "doc": "x" * 8_000} for number in range(1, 1_001)]
    create = json.dumps({"name": "t", "schema": {"type": "struct", "schema-id": 0, "fields": fields}})
    path, body = (f"namespaces/{asked}/tables", create) if asked == "replay" else ("events", '{"operation-types":["create-table"]}')
    key = uuid.uuid4()
    head = f"Host: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n"
    with ExitStack() as opened, bounded_memory(server):
        first = connected(server, opened)
        first.sendall(f"POST /v1/demo/namespaces/{asked}/tables HTTP/1.1\r\n{head}Content-Length: {len(create)}\r\n\r\n{create}".encode())
        assert [200] == statuses([first])
        first.close()
        answered = []
        for _ in range(REPEATS):
            each = connected(server, opened, receive_bytes=4_096)
            each.sendall(f"POST /v1/demo/{path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answered += statuses([each])
        serves(server)
    assert {200, 429} == set(answered)


def test_responses_of_commits_that_no_client_reads(server: Icecore) -> None:
    """Commits to ten tables of 8 MB, each answered with the whole table. Those without memory for the response get 429 and do nothing."""
    assert 200 == call(server, "POST", "/namespaces", {"namespace": ["committed"]})[0]
    fields = [{"id": number, "name": f"c{number}", "type": "long", "required": False, "doc": "x" * 8_000} for number in range(1, 1_001)]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    for number in range(REPEATS):
        assert 200 == call(server, "POST", "/namespaces/committed/tables", {"name": f"t{number}", "schema": schema})[0]
    body = '{"requirements":[],"updates":[{"action":"set-properties","updates":{"seen":"1"}}]}'
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    answered = []
    with ExitStack() as opened, bounded_memory(server):
        for number in range(REPEATS):
            each = connected(server, opened, receive_bytes=4_096)
            each.sendall(f"POST /v1/demo/namespaces/committed/tables/t{number} HTTP/1.1\r\n{head}".encode())
            answered += statuses([each])
        serves(server)
    assert {200, 429} == set(answered)
    end = time.monotonic() + 30
    for number, status in enumerate(answered):
        while (loaded := call(server, "GET", f"/namespaces/committed/tables/t{number}"))[0] == 429:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert (b'"seen":"1"' in loaded[1]) == (status == 200)


def test_a_response_that_is_read_slowly(server: Icecore) -> None:
    """A client that reads more slowly than RESPONSE_RATE_MIN is disconnected. Otherwise it could hold the response for an hour."""
    properties = {f"p{number}": "x" * 60_000 for number in range(200)}
    assert 200 == call(server, "POST", "/namespaces", {"namespace": ["trickled"], "properties": properties})[0]
    with ExitStack() as opened, bounded_memory(server):
        reader = connected(server, opened, receive_bytes=SMALL_READ_BYTES)
        reader.sendall(b"GET /catalog/v1/demo/namespaces/trickled HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reader.recv(12) == b"HTTP/1.1 200"
        # Not all of it: the kernel delivers what it has buffered after the connection is closed.
        end = time.monotonic() + 2 * STALL_SECONDS + 1
        while open_connections(server) > LISTENING:
            assert reader.recv(SMALL_READ_BYTES)
            assert time.monotonic() < end, "it is still served"
            time.sleep(0.1)


STREAMS = 200
EVENTS_BYTES = 8 * MEBIBYTE
"""More than the kernel buffers for a client that does not read."""


def write_namespace(server: Icecore, name: str, size: int) -> int:
    """Events that contain their data. Returns their number."""
    for number in range(EVENTS_BYTES // size):
        change = {"updates": {"p": f"{number:08}" + "x" * size}}
        assert 200 == call(server, "POST", f"/namespaces/{name}/properties", change)[0]
    return EVENTS_BYTES // size


def roll_back(server: Icecore, name: str, size: int) -> int:
    """Small events that refer to large summaries. Returns their number."""
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    status, body = call(server, "POST", f"/namespaces/{name}/tables", {"name": "t", "schema": schema})
    assert 200 == status
    location = json.loads(body)["metadata"]["location"]

    def commit(*updates: dict[str, Any]) -> None:
        assert 200 == call(server, "POST", f"/namespaces/{name}/tables/t", {"requirements": [], "updates": updates})[0]

    for number in (1, 2):
        snapshot, ref = snapshot_updates(f"{location}/metadata/snap-{number}.avro", number)
        snapshot["snapshot"]["summary"]["x"] = "x" * size
        commit(snapshot, ref)
    for number in range(40):
        commit({**ref, "snapshot-id": 1 + number % 2})
    return 43


WRITES = [(roll_back, 900_000, 100), *([(write_namespace, 6_000, 100), (write_namespace, 900_000, 100)] if LONG else [])]


@pytest.mark.parametrize(("write", "size", "mebibytes_max"), WRITES)
def test_event_streams_that_no_client_reads(
    server: Icecore, write: Callable[[Icecore, str, int], int], size: int, mebibytes_max: int
) -> None:
    """200 clients follow the log from a position and read nothing. A reading client gets everything meanwhile."""
    name = f"told_{write.__name__}_{size}"
    assert 200 == call(server, "POST", "/namespaces", {"namespace": [name]})[0]
    after = server.position()
    count = write(server, name, size)
    asked = f"GET /history/v1/events?after={after} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    before = resident_mebibytes(server.process_id)
    with ExitStack() as opened, bounded_memory(server, before + mebibytes_max):
        sockets = [connected(server, opened, receive_bytes=4_096) for _ in range(STREAMS - 1)]
        for each in sockets:
            each.sendall(asked)
        assert {200} == set(statuses(sockets))
        serves(server)
        reader = connected(server, opened)
        reader.sendall(asked)
        received_count, text = 0, b""
        while received_count < count:
            text = text[-8:] + reader.recv(MEBIBYTE)
            received_count += text.count(b"\nevent: ")


def test_requests_that_are_sent_without_waiting_for_responses(server: Icecore) -> None:
    """Behind a slow request, 300 clients send bodies of 60 KB in succession."""
    wait = b"GET /history/v1/wait?position=999999&wait-seconds=6 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /catalog/v1/demo/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
    with ExitStack() as opened, bounded_memory(server):
        sockets = [connected(server, opened) for _ in range(ATTACKERS)]
        push(sockets, wait + (head + b" " * 60_000) * 40, 4.0)
        serves(server)


@pytest.mark.parametrize("value", [b"{}", b'{"":1}', '"€"'.encode()])
def test_small_bodies_of_many_values_that_end_at_once(server: Icecore, value: bytes) -> None:
    """300 bodies just below 64 KiB with a much larger parsed form: those with memory are processed, the others get 429."""
    start = b'{"requirements":[],"updates":[{"action":"set-properties","updates":{},"x":['
    body = start + b",".join([value] * ((65_400 - len(start)) // (len(value) + 1))) + b"]}]}"
    name = f"dense{len(value)}"
    assert 200 == call(server, "POST", "/namespaces", {"namespace": [name]})[0]
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    assert 200 == call(server, "POST", f"/namespaces/{name}/tables", {"name": "t", "schema": schema})[0]
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    head = f"POST /catalog/v1/demo/namespaces/{name}/tables/t HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n".encode()
    # Earlier attacks leave a fragmented heap. Including that, memory stays below a worker's limit.
    most = min(MEMORY_MEBIBYTES_MAX, resident_mebibytes(server.process_id) + DENSE_MEBIBYTES_MAX)
    with ExitStack() as opened, bounded_memory(server, most):
        sockets = [connected(server, opened) for _ in range(ATTACKERS)]
        for each in sockets:
            each.sendall(head + body[:-1])
        serves(server)
        healthy = connected(server, opened)
        for each in sockets:
            each.sendall(body[-1:])
        # What the server does first, in processor time: on a busy machine the wait itself is longer.
        began = processor_seconds(server.process_id)
        healthy.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert healthy.recv(12) == b"HTTP/1.1 200"
        assert processor_seconds(server.process_id) - began < WAITED_SECONDS_MAX
        answered = statuses(sockets)
        serves(server)
    assert ATTACKERS == len(answered)
    assert {200, 429} == set(answered)


def open_connections(server: Icecore) -> int:
    """The established TCP connections of the process."""
    files = []
    for file in Path(f"/proc/{server.process_id}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            files.append(str(file.readlink()))
    held = {file.removeprefix("socket:[").removesuffix("]") for file in files if file.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[9] in held for row in rows)


def test_a_server_raises_the_descriptors_it_may_open(server: Icecore) -> None:
    """Above the limit it was started with, as far as the system permits."""
    soft, hard = resource.prlimit(server.process_id, resource.RLIMIT_NOFILE)
    assert (DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)) == soft
    assert DESCRIPTORS_AT_START < soft


@pytest.fixture
def server_of_256_files() -> Iterator[Icecore]:
    """A new server, because another one may have more descriptors open already."""
    with open_directory() as directory, icecore(directory / "data") as started:
        _, hard = resource.prlimit(started.process_id, resource.RLIMIT_NOFILE)
        resource.prlimit(started.process_id, resource.RLIMIT_NOFILE, (256, hard))
        yield started


@pytest.mark.parametrize("at_once", [False, True])
def test_idle_connections_leave_descriptors_for_others(server_of_256_files: Icecore, at_once: bool) -> None:
    """Of 400 connections to a server with 256 descriptors, the newest and those in use are kept, also if they arrive together."""
    server = server_of_256_files
    with ExitStack() as opened:
        if at_once:
            os.kill(server.process_id, signal.SIGSTOP)
        for _ in range(400):
            newest = connected(server, opened)
        newest.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        os.kill(server.process_id, signal.SIGCONT)
        assert newest.recv(12) == b"HTTP/1.1 200"
        for _ in range(20):
            serves(server)
        # Those that the client or the server closed a moment ago may still be open.
        wait_for(lambda: 0 < open_connections(server) <= 256 * 3 // 4 + LISTENING)


SLOW_BODIES = 250


def test_bodies_that_arrive_slowly_make_room_for_new_connections(server_of_256_files: Icecore) -> None:
    """A byte of each every 0.2 seconds is progress, but too little. They take all connections that 256 descriptors permit."""
    server, opened_count = server_of_256_files, 0
    kind = "Content-Type: application/json\r\nContent-Length: 100000"
    head = f"POST /catalog/v1/demo/namespaces HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n\r\n{{".encode()
    with ExitStack() as opened:
        bodies = [connected(server, opened) for _ in range(SLOW_BODIES)]
        for each in bodies:
            with contextlib.suppress(ConnectionError):
                each.sendall(head)
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            for each in bodies:
                with contextlib.suppress(ConnectionError):
                    each.sendall(b" ")
            assert 200 == call(server, "GET", "/namespaces")[0]
            opened_count += 1
            time.sleep(0.2)
    assert 5 < opened_count
