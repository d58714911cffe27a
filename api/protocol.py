"""Errors below the application, where the HTTP itself is invalid. The answer never repeats what was sent."""

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
from .connections import Awaited, Connections
from .draining import Draining
from .edge import Edge, Handler
from .errors import ChunksTooSmall, error_response
from .origins import ORIGIN_RULES
from .pipelining import PipelinedRequests
from .request_ids import name_answer, request_id_of
from .request_metrics import REQUEST_FIGURES

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")


HEAD_BYTES_MAX = 96 * 1024
"""Of a request's line and all its headers together."""

CHUNK_FRAMING_BYTES_MAX = 8 * 1024
CHUNK_FRAMING_SHARE_MAX = 1 / 16
"""Of a body in chunks: how many bytes may be sizes and line ends, and how many more for each byte of content.

Together with what is parsed at one time they are fewer chunks than those at which aiohttp pauses reading, when they are not counted.
"""
# Of heads and chunks at one time, before they are counted: parsed, they take several times their bytes.
_PARSED_BYTES_MAX = 4 * 1024


class EdgeProtocol(web.RequestHandler):
    """aiohttp's connection handler, with bounds on what it holds of a client that sends too much, or stops sending or reading.

    Its own error page and log line would repeat header lines, credentials among them.
    """

    __slots__ = (
        "_answer",
        "_body_bytes",
        "_body_refused",
        "_drained",
        "_head_bytes",
        "_in_chunks",
        "_last_body",
        "_opened",
        "_pipelined",
        "_refused",
        "idle_since",
    )

    def __init__(self, manager: web.Server, pipelined: PipelinedRequests, **settings: Any) -> None:
        super().__init__(manager, **settings)
        self._pipelined = pipelined
        self._drained = self._head_bytes = self._body_bytes = 0
        self._in_chunks = self._body_refused = False
        self.idle_since = 0.0
        self._last_body: StreamReader = EMPTY_PAYLOAD
        self._opened: asyncio.Transport | None = None
        self._answer: AbstractStreamWriter | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Kept apart: aiohttp forgets its transport when it asks it to close, which waits for a client that reads nothing.
        self._opened = cast(asyncio.Transport, transport)
        self.idle_since = asyncio.get_running_loop().time()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        # They refer to the connection: cycles that would keep its buffers until a collection.
        self._opened = self._answer = None
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
            # Answered, and about to be closed.
            return
        in_head, requests = self._last_body.is_eof(), self._request_count
        super().data_received(data)
        if self._request_count != requests:
            self._head_bytes = self._body_bytes = 0
            message, self._last_body = self._messages[-1]
            self._in_chunks = not isinstance(message, _ErrInfo) and message.chunked
            if (len(self._messages) > 1 or self._request_in_progress) and not self._buffer_paused:
                # Requests behind one that is being answered wait in the socket: here they would take up to 32 bodies' room.
                self._pause_reading_for_buffer()
        elif in_head and data:
            self._head_bytes += len(data)
            if self._head_bytes >= HEAD_BYTES_MAX:
                self._refuse_head()
        elif self._in_chunks:
            self._body_bytes += len(data)
            content = self._last_body.total_bytes
            # While reading is paused, some of the bytes are not parsed yet.
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
            # By its class, as in `cut`.
            self._last_body.set_exception(cast(ChunksTooSmall, ChunksTooSmall))
        else:
            # It was answered before all of it came.
            self.abort()

    def resume_writing(self) -> None:
        self._drained += 1
        super().resume_writing()

    def awaited(self) -> Awaited | None:
        unsent = 0 if self._opened is None else self._opened.get_write_buffer_size()
        if unsent:
            return "answer", self._drained, unsent
        if self._request_in_progress:
            body = self._last_body
            # While reading is paused, the server has yet to take what came.
            paused = self._reading_paused or self._buffer_paused
            return None if body.is_eof() or paused or self._current_request is None else ("body", body.total_bytes)
        if self._waiter is None and self._request_count:
            return None
        # Its bytes are no progress: a head must be complete in time.
        return ("head",) if self._head_bytes else ("request",)

    def answer_bytes_taken(self) -> int | None:
        unsent = 0 if self._opened is None else self._opened.get_write_buffer_size()
        return self._answer.output_size - unsent if unsent and self._answer is not None else None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        # Streams of events write before this, as their events come: they are not measured.
        if self._opened is not None:
            self._answer = request.writer
        if self._body_refused and not resp.prepared:
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        self.idle_since = asyncio.get_running_loop().time()
        if self._body_refused and not self._messages:
            self.force_close()
        elif self._messages:
            await self._pipelined.turn()
        return finished

    def cut(self, awaited: str) -> None:
        if awaited == "body":
            # By its class, so that each is a new one: an error that the body kept would keep the body, in the frames it went through.
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
            raise ConnectionError("an answer is on its way already")
        request_id = request_id_of(None)
        refusal: CatalogError
        if status < 500:
            refusal = BadRequest("The request is not well-formed HTTP, or its line or a header is too long")
            _log.info("request_malformed", request_id=request_id, error=type(exc).__name__)
        else:
            refusal = InternalError()
            _log.error("request_failed", request_id=request_id, exc_info=exc)
        response = error_response(refusal)
        name_answer(response, request_id)
        response.force_close()
        return response


class _EdgeServer(web.Server):
    def __init__(self, answer: Any, connections_open: Connections, *, request_factory: Any, **settings: Any) -> None:
        super().__init__(answer, request_factory=request_factory)
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
    """An AppRunner whose connections are EdgeProtocols, and whose requests go through an Edge to `handler`, not to the application's own.

    draining -- the requests in flight. connections -- the bounds on them.
    """

    __slots__ = ("_handler", "_settings", "connections", "draining")

    def __init__(self, app: web.Application, handler: Handler, connections: Connections, **settings: Any) -> None:
        super().__init__(app, **settings)
        self._handler, self._settings, self.connections = handler, settings, connections
        self.draining = Draining()

    async def stop_accepting(self) -> None:
        """Accepts no more by itself; its sites may be stopped then."""
        servers: list[Any] = [site._server for site in self.sites]
        await stop_accepting(socket for server in servers if server is not None for socket in server.sockets)

    async def drain(self) -> None:
        """Lets the requests in flight end, except those whose clients make no progress."""
        self.connections.drain()
        await self.draining.drain()

    async def cleanup(self) -> None:
        # Connections are watched to the end: answers that nobody reads must not hold it up.
        try:
            await self.stop_accepting()
            await super().cleanup()
        finally:
            self.connections.close()

    async def _make_server(self) -> web.Server:
        server: Any = await super()._make_server()
        edge = Edge(self._handler, self.app[REQUEST_FIGURES], self.draining, self.app[ORIGIN_RULES])
        # The requests are the application's, web.Request: its request_factory makes them.
        edge_server = _EdgeServer(edge.answer, self.connections, request_factory=server.request_factory, **self._settings)
        self.connections.start()
        return edge_server
