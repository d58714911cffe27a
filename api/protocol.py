"""HTTP connections: limits on what one client can make the server hold, and errors for malformed HTTP.

An error response never repeats what the client sent.
"""

import asyncio
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from ..domain.errors import BadRequest, CatalogError, InternalError
from .accepting import stop_accepting
from .connections import ClientConnections, ExpectedFromClient
from .edge import ENDPOINT_STATISTICS, Edge, WebHandler
from .errors import ChunksTooSmall, error_response
from .in_flight_requests import InFlightRequests
from .origins import ORIGIN_RULES
from .pipelining import PipelinedRequests
from .proxies import TRUSTED_PROXIES
from .request_ids import request_id_of, set_response_headers
from .request_metrics import REQUEST_METRICS
from .send_queue import unacknowledged_bytes

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")


HEAD_BYTES_MAX = 96 * 1024
"""Limit on a request line and all its headers together."""

CHUNK_FRAMING_BYTES_MAX = 8 * 1024
CHUNK_FRAMING_SHARE_MAX = 1 / 16
"""Limits on the framing of a chunked body (chunk sizes and line ends): a fixed number of bytes, plus a share of the content's bytes.

With these limits and `_PARSED_BYTES_MAX`, a body is refused before aiohttp pauses reading because of its number of chunks.
"""
# How many bytes of headers or chunks are parsed before they are counted again. Parsed, they take several times their size.
_PARSED_BYTES_MAX = 4 * 1024


class EdgeProtocol(web.RequestHandler):
    """aiohttp's connection handler, with limits for clients that send too much, or stop sending or reading.

    It replaces aiohttp's error page and log line, which would repeat header lines, including credentials.
    """

    __slots__ = (
        "_body_bytes",
        "_body_refused",
        "_head_bytes",
        "_in_chunks",
        "_last_body",
        "_opened",
        "_pipelined",
        "_receiving_since",
        "_refused",
        "_response_writer",
        "_write_drains",
        "idle_since",
    )

    def __init__(self, manager: web.Server, pipelined: PipelinedRequests, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._pipelined = pipelined
        self._write_drains = self._head_bytes = self._body_bytes = 0
        self._in_chunks = self._body_refused = False
        self.idle_since = self._receiving_since = 0.0
        self._last_body: StreamReader = EMPTY_PAYLOAD
        self._opened: asyncio.Transport | None = None
        self._response_writer: AbstractStreamWriter | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Kept separately: aiohttp drops its reference when it closes the transport, but closing waits for a client that does not read.
        self._opened = cast(asyncio.Transport, transport)
        self.idle_since = asyncio.get_running_loop().time()
        super().connection_made(transport)

    async def start(self) -> None:
        # A connection that was refused at once is lost before this task begins. aiohttp's own method would fail, with a trace for each.
        if self._manager is not None:
            await super().start()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        # These refer to the connection. The reference cycles would keep its buffers until a garbage collection.
        self._opened = self._response_writer = None
        self._last_body = EMPTY_PAYLOAD
        self._messages.clear()

    def data_received(self, data: bytes) -> None:
        start = 0
        while len(data) - start > _PARSED_BYTES_MAX and (self._in_chunks or self._last_body.is_eof()):
            self._parse(data[start : start + _PARSED_BYTES_MAX])
            start += _PARSED_BYTES_MAX
        self._parse(data[start:] if start else data)

    def _parse(self, data: bytes) -> None:
        if self._refused:
            # The error was sent, and the connection is about to be closed.
            return
        in_head, requests = self._last_body.is_eof(), self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._receiving_since = asyncio.get_running_loop().time()
            self._head_bytes = self._body_bytes = 0
            message, self._last_body = self._messages[-1]
            self._in_chunks = not isinstance(message, _ErrInfo) and message.chunked
            if (len(self._messages) > 1 or self._request_in_progress) and not self._buffer_paused:
                # Pipelined requests wait in the socket's buffer. Here they could take the memory of up to 32 bodies.
                self._pause_reading_for_buffer()
        elif in_head and data:
            if not self._head_bytes:
                self._receiving_since = asyncio.get_running_loop().time()
            self._head_bytes += len(data)
            if self._head_bytes >= HEAD_BYTES_MAX:
                self._refuse_head()
        elif self._in_chunks:
            self._body_bytes += len(data)
            content = self._last_body.total_bytes
            # While reading is paused, some of the bytes have not been parsed yet.
            if not self._reading_paused and self._body_bytes - content > CHUNK_FRAMING_BYTES_MAX + CHUNK_FRAMING_SHARE_MAX * content:
                self._refuse_body()

    def _resume_reading_if_drained(self) -> None:
        if not self._messages:
            super()._resume_reading_if_drained()

    def _refuse_head(self) -> None:
        self._refused = True
        error = LineTooLong("headers", str(HEAD_BYTES_MAX))
        self._messages.append((_ErrInfo(status=400, exc=error, message=""), EMPTY_PAYLOAD))
        self._pause_reading_for_buffer()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _refuse_body(self) -> None:
        self._refused = self._body_refused = True
        if self._request_in_progress or self._messages:
            # The class, not an instance, as in `close_stalled`.
            self._last_body.set_exception(cast(ChunksTooSmall, ChunksTooSmall))
        else:
            # The response was sent before the whole body arrived.
            self.abort()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            # The time for which the server did not read does not count.
            self._receiving_since = asyncio.get_running_loop().time()
        super().resume_reading(resume_parser)

    def resume_writing(self) -> None:
        self._write_drains += 1
        super().resume_writing()

    def expected_from_client(self) -> ExpectedFromClient | None:
        if untaken := self._untaken_bytes():
            return "response", self._write_drains, untaken
        if self._request_in_progress:
            body = self._last_body
            # While reading is paused, the server is the one that is slow.
            paused = self._reading_paused or self._buffer_paused
            return None if body.is_eof() or paused or self._current_request is None else ("body", body.total_bytes)
        if self._waiter is None and self._request_count:
            # The rest of a body is awaited for a while even if the response was sent before.
            return None if self._last_body.is_eof() or self._messages else ("body", self._last_body.total_bytes)
        # Single bytes of a head do not count as progress: the whole head must arrive in time.
        return ("head",) if self._head_bytes else ("request",)

    def seconds_behind(self, rate: int) -> float:
        expected = self.expected_from_client()
        if expected is None or expected[0] not in ("head", "body"):
            return 0.0
        received = self._head_bytes if expected[0] == "head" else self._last_body.total_bytes
        # A pipelined request is received from the end of the previous one.
        return asyncio.get_running_loop().time() - max(self._receiving_since, self.idle_since) - received / rate

    def response_bytes_taken(self) -> int | None:
        untaken = self._untaken_bytes()
        return self._response_writer.output_size - untaken if untaken and self._response_writer is not None else None

    def _untaken_bytes(self) -> int:
        """The bytes of responses that the client has not taken. 0 once the kernel has the rest of them: no memory of ours is needed."""
        unsent = 0 if self._opened is None else self._opened.get_write_buffer_size()
        return unsent + unacknowledged_bytes(self._opened) if unsent and self._opened is not None else 0

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # Event streams write their response before this call, so their rate is not measured.
        if self._opened is not None:
            self._response_writer = request.writer
        if self._body_refused and not resp.prepared:
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        self.idle_since = asyncio.get_running_loop().time()
        if self._body_refused and not self._messages:
            self.force_close()
        elif self._messages:
            await self._pipelined.turn()
        return finished

    def close_stalled(self, expected: str) -> None:
        if expected == "body":
            # The class, so that every read raises a new instance: a stored instance would keep the body alive through its traceback.
            self._last_body.set_exception(cast(TimeoutError, TimeoutError))
        else:
            self.abort()

    def abort(self) -> None:
        if self._opened is not None:
            self._opened.abort()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("a response has already started")
        request_id = request_id_of(None)
        refusal: CatalogError
        if status < 500:
            refusal = BadRequest("The request is not well-formed HTTP, or its request line or a header is too long")
            _log.info("request_malformed", request_id=request_id, client=request.remote, error=type(exc).__name__)
        else:
            refusal = InternalError()
            _log.error("request_failed", request_id=request_id, client=request.remote, exc_info=exc)
        response = error_response(refusal)
        set_response_headers(response, request_id)
        response.force_close()
        return response


class _EdgeServer(web.Server):
    def __init__(self, handler: Any, connections_open: ClientConnections, *, request_factory: Any, **settings: Any) -> None:
        super().__init__(handler, request_factory=request_factory)
        self._settings, self._pipelined, self.connections_open = settings, PipelinedRequests(), connections_open

    def __call__(self) -> web.RequestHandler:
        return EdgeProtocol(self, self._pipelined, loop=asyncio.get_running_loop(), **self._settings)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.connections_open.opened(cast(EdgeProtocol, handler))

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        self.connections_open.closed(cast(EdgeProtocol, handler))
        super().connection_lost(handler, exc)


class EdgeRunner(web.AppRunner):
    """An AppRunner whose connections are EdgeProtocols, and whose requests go through an Edge to `handler` instead of aiohttp's router.

    in_flight_requests -- counts the requests in flight. connections -- the open connections and their limits.
    """

    __slots__ = ("_handler", "_settings", "connections", "in_flight_requests")

    def __init__(self, app: web.Application, handler: WebHandler, connections: ClientConnections, **settings: Any) -> None:
        super().__init__(app, **settings)
        self._handler, self._settings, self.connections = handler, settings, connections
        self.in_flight_requests = InFlightRequests()

    async def stop_accepting(self) -> None:
        """Stops accepting connections, so that the sites may be stopped."""
        servers: list[Any] = [site._server for site in self.sites]
        await stop_accepting(socket for server in servers if server is not None for socket in server.sockets)

    async def drain(self) -> None:
        """Waits for the requests in flight, except those whose clients make no progress."""
        self.connections.drain()
        await self.in_flight_requests.drain()

    async def cleanup(self) -> None:
        # The limits on connections stay active until the end, so that a client that does not read cannot delay the shutdown.
        try:
            await self.stop_accepting()
            await super().cleanup()
        finally:
            self.connections.close()

    async def _make_server(self) -> web.Server:
        server: Any = await super()._make_server()
        app = self.app
        edge = Edge(
            self._handler,
            app[REQUEST_METRICS],
            self.in_flight_requests,
            app[ORIGIN_RULES],
            app[TRUSTED_PROXIES],
            app.get(ENDPOINT_STATISTICS),
        )
        # The application's request_factory makes web.Request objects; the server's default would make web.BaseRequest.
        edge_server = _EdgeServer(edge.handle, self.connections, request_factory=server.request_factory, **self._settings)
        self.connections.start()
        return edge_server
