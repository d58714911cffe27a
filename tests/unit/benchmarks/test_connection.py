"""The load generator's HTTP client: responses in pieces, chunked, without a body, and closed connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from benchmarks.connection import Connection, ConnectionLostError, get, post


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[Connection]:
    """A connection to a server that responds to every request with these pieces, each in a separate write."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n") and pieces:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.005)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    connection = await Connection.open(host, port)
    try:
        yield connection
    finally:
        connection.close()
        server.close()
        await ended.wait()


@pytest.mark.parametrize(
    ("pieces", "body"),
    [
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",), b"hello"),
        ((b"HTTP/1.1 200 OK\r\ncontent-len", b"gth: 5\r\n\r", b"\nhe", b"llo"), b"hello"),
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", b"2;x=y\r\nl", b"o\r\n0\r\n\r\n"), b"hello"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",), b""),
    ],
)
async def test_a_response_is_whole_however_it_comes(pieces: tuple[bytes, ...], body: bytes) -> None:
    """Twice, so that remains of the first response would be noticed."""
    async with answering(*pieces) as connection:
        for _ in range(2):
            received = await connection.exchange(get("/", "host", {}))
            assert (200, body, len(body)) == (received.status, received.body, received.body_bytes)


async def test_connections_that_read_in_turns_keep_their_own_bodies() -> None:
    """They share one receive buffer."""

    def pieces(letter: bytes) -> list[bytes]:
        return [b"HTTP/1.1 200 OK\r\nConten", b"t-Length: 400000\r\n\r\n" + letter * 100_000, letter * 200_000, letter * 100_000]

    async with answering(*pieces(b"a")) as first, answering(*pieces(b"b")) as second:
        received = await asyncio.gather(*(connection.exchange(get("/", "host", {})) for connection in (first, second)))
    assert [b"a" * 400_000, b"b" * 400_000] == [one.body for one in received]


@pytest.mark.parametrize("status", [204, 304])
async def test_responses_without_a_body_need_no_length(status: int) -> None:
    """204 and 304 end with their header."""
    async with answering(f"HTTP/1.1 {status} X\r\nETag: a\r\n\r\n".encode()) as connection:
        assert status == (await connection.exchange(get("/", "host", {}))).status


async def test_a_closed_connection_is_not_a_response() -> None:
    """The request fails and is not counted as answered."""
    async with answering() as connection:
        with pytest.raises(ConnectionLostError):
            await connection.exchange(get("/", "host", {}))


@pytest.mark.parametrize("make", [lambda: get("/a?b=c", "h:1", {"Accept": "x"}), lambda: post("/a?b=c", "h:1", {"Accept": "x"}, b"{}")])
def test_requests_are_http(make: Callable[[], bytes]) -> None:
    """A request line, headers, an empty line, and the length of a body."""
    head, _, body = make().partition(b"\r\n\r\n")
    method, *headers = head.split(b"\r\n")
    assert method in (b"GET /a?b=c HTTP/1.1", b"POST /a?b=c HTTP/1.1")
    assert {b"Host: h:1", b"Accept: x"} <= set(headers)
    assert (b"Content-Length: 2" in headers) == (body == b"{}")
