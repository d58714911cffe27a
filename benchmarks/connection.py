"""A keep-alive HTTP/1.1 connection over a raw asyncio protocol, with as little work per response as Python allows."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

ANSWER_SECONDS_MAX = 120.0


@dataclass(slots=True)
class Received:
    """A response: its status, its header block, and its body as read (empty if it was discarded)."""

    status: int
    header: bytes
    pieces: list[bytes]
    body_bytes: int

    @property
    def body(self) -> bytes:
        """The joined body. For a large response this takes as long as reading it, so it is done only on access."""
        return b"".join(self.pieces)


class ConnectionLostError(Exception):
    """The server closed the connection before its response."""


# All connections read into one buffer, and copy from it before the event loop reads again. A `bytes` object for each read of one that
# is only counted would take a third of the response's time.
_READ_BYTES_MAX = 256 * 1024
_buffer = bytearray(_READ_BYTES_MAX)
_read = memoryview(_buffer)


class Connection(asyncio.BufferedProtocol):
    """Sends one request at a time: `start` with a callback, or `await exchange`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answered: Callable[[Received], None] | None = None
        self._lost: Callable[[], None] | None = None
        self._keep_body = True
        self._begin_response()

    def _begin_response(self) -> None:
        self._head = b""
        self._status = 0
        self._header = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._missing = -1
        self._chunked = False
        self._line = b""

    @classmethod
    async def open(cls, host: str, port: int) -> "Connection":
        _, protocol = await asyncio.get_running_loop().create_connection(cls, host, port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._lost is not None:
            self._lost()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def close(self) -> None:
        self._lost = None
        if self._transport is not None:
            self._transport.close()

    def start(
        self, request: bytes, answered: Callable[[Received], None], lost: Callable[[], None] | None = None, *, keep_body: bool = False
    ) -> None:
        """Sends a request. Calls `answered` with its response, or `lost` if there is none."""
        if self._transport is None:
            raise ConnectionLostError
        self._answered = answered
        self._lost = lost
        self._keep_body = keep_body
        self._transport.write(request)

    async def exchange(self, request: bytes) -> Received:
        """Sends a request and waits for its response with the body."""
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

        def lost() -> None:
            if not future.done():
                future.set_exception(ConnectionLostError())

        self.start(request, future.set_result, lost, keep_body=True)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await future

    def get_buffer(self, sizehint: int) -> memoryview:
        return _read

    def buffer_updated(self, count: int) -> None:
        start = 0
        if self._missing < 0 and not self._chunked:
            start = self._take_head(count)
            if start < 0:
                return
        if self._chunked:
            self._take_chunks(bytes(_read[start:count]))
        else:
            self._take_body(start, count)

    def _take_head(self, count: int) -> int:
        """The index of the body in the data; -1 if the head is incomplete."""
        earlier = len(self._head)
        head = self._head + bytes(_read[:count]) if earlier else _buffer
        end = head.find(b"\r\n\r\n", 0, earlier + count)
        if end < 0:
            self._head = bytes(head[: earlier + count])
            return -1
        self._header = header = bytes(head[: end + 2])
        self._status = int(header[9:12])
        if self._status in (204, 304):
            self._missing = 0
        else:
            self._missing = _content_length(header)
            self._chunked = self._missing < 0
        return end + 4 - earlier

    def _take_body(self, start: int, end: int) -> None:
        self._size += end - start
        self._missing -= end - start
        if self._keep_body:
            self._pieces.append(bytes(_read[start:end]))
        if self._missing == 0:
            self._finish()

    def _take_chunks(self, data: bytes) -> None:
        data = self._line + data
        while True:
            end = data.find(b"\r\n")
            if end < 0:
                break
            size = int(data[:end].split(b";")[0], 16)
            if len(data) < end + 2 + size + 2:
                break
            if size == 0:
                self._finish()
                return
            self._size += size
            if self._keep_body:
                self._pieces.append(data[end + 2 : end + 2 + size])
            data = data[end + 2 + size + 2 :]
        self._line = data

    def _finish(self) -> None:
        received = Received(self._status, self._header, self._pieces, self._size)
        answered, self._answered, self._lost = self._answered, None, None
        self._begin_response()
        if answered is not None:
            answered(received)


def _content_length(header: bytes) -> int:
    """The length of a response's body; -1 if it is chunked."""
    at = header.find(b"Content-Length: ")
    if at < 0:
        lower = header.lower()
        at = lower.find(b"content-length: ")
        if at < 0:
            if b"transfer-encoding: chunked" not in lower:
                raise ConnectionLostError("a response without a length")
            return -1
    return int(header[at + 16 : header.index(b"\r\n", at)])


def get(path: str, host: str, headers: dict[str, str]) -> bytes:
    return _head("GET", path, host, headers) + b"\r\n"


def post(path: str, host: str, headers: dict[str, str], body: bytes) -> bytes:
    return _head("POST", path, host, headers) + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _head(method: str, path: str, host: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n").encode()
