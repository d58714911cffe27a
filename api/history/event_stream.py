"""Server-Sent Events: the log from a position on, then each event as it comes, as fast as the client reads (WHATWG HTML, 9.2)."""

import asyncio
from collections.abc import Iterable, Iterator

import structlog
from aiohttp import ClientError, web

from api.history.event_source import EventReader, EventSource, TellableEvent, TellableEvents
from api.origins import ORIGIN_RULES
from api.request_ids import REQUEST_ID, name_answer
from domain.errors import ServiceUnavailable

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

EVENT_STREAM = "text/event-stream"

HEARTBEAT_SECONDS = 15.0
"""A stream that has nothing to tell says so, before a proxy takes it for dead."""
WRITE_SECONDS_MAX = 30.0
"""A client that takes not even one piece in this time is cut off; it comes back with Last-Event-ID."""
WRITE_BYTES = 64 * 1024
"""About as many are written at once; the next piece waits until the client has taken this one."""
_LOOK_SECONDS = 1.0
_LAST_WRITE_SECONDS_MAX = 1.0
_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream_events(request: web.Request, source: EventSource, reader: EventReader, after: int, to: int | None) -> web.StreamResponse:
    """Everything after a position and not after `to`, until the client goes or the server stops. TooManyRequests."""
    with source.following():
        response = web.StreamResponse(headers=_HEADERS)
        name_answer(response, request[REQUEST_ID])
        request.app[ORIGIN_RULES].permit_reading(request, response)
        stream = _Stream(request, response, source)
        try:
            await response.prepare(request)
            await stream.write(b": the log from position %d on\n\n" % (after + 1))
            await _tell(stream, source, reader, after, to)
            await response.write_eof()
        except (ConnectionError, ClientError, TimeoutError):
            # The client has gone, or takes nothing: there is nobody to tell of it.
            _cut(request)
        except Exception as error:
            # An answer that has begun cannot become another one: the client comes back, and hears it then.
            _log.error("event_stream_failed", request_id=request[REQUEST_ID], exc_info=error)
            _cut(request)
        return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _tell(stream: "_Stream", source: EventSource, reader: EventReader, after: int, to: int | None) -> None:
    position = after
    while position != to and not source.is_stopping:
        batch = await _batch(reader, position, to)
        if batch is not None and not batch.at_end:
            for piece in _pieces(batch.events):
                await stream.write(piece)
            position = batch.position
            continue
        if batch is None:
            await asyncio.sleep(_LOOK_SECONDS)
        else:
            await source.arrived(position, _LOOK_SECONDS)
        await stream.heartbeat(position)


async def _batch(reader: EventReader, position: int, to: int | None) -> TellableEvents | None:
    """None where the log cannot be read for now: an answer that has begun can no longer say so."""
    try:
        return await reader.batch(position, to=to)
    except ServiceUnavailable:
        return None


def _pieces(events: Iterable[TellableEvent]) -> Iterator[bytes]:
    """The events as they are written, several in a piece."""
    piece = bytearray()
    for event in events:
        piece += b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position, event.type.encode(), event.body)
        if len(piece) >= WRITE_BYTES:
            yield bytes(piece)
            piece = bytearray()
    if piece:
        yield bytes(piece)


class _Stream:
    """One answer under way."""

    def __init__(self, request: web.Request, response: web.StreamResponse, source: EventSource) -> None:
        self._request = request
        self._response = response
        self._source = source
        self._written_at = 0.0

    async def write(self, piece: bytes) -> None:
        """Returns once the client has taken most of it. Raises ConnectionError where it has gone, TimeoutError where it takes nothing."""
        loop = asyncio.get_running_loop()
        writing = asyncio.ensure_future(self._response.write(piece))
        end = loop.time() + WRITE_SECONDS_MAX
        try:
            while not (await asyncio.wait({writing}, timeout=_LOOK_SECONDS))[0]:
                if self._source.is_stopping:
                    end = min(end, loop.time() + _LAST_WRITE_SECONDS_MAX)
                if loop.time() >= end:
                    raise TimeoutError
        finally:
            writing.cancel()
        writing.result()
        self._written_at = loop.time()

    async def heartbeat(self, position: int) -> None:
        """A comment, if nothing was written for long. Raises ConnectionError where the client has gone."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if asyncio.get_running_loop().time() - self._written_at >= HEARTBEAT_SECONDS:
            await self.write(b": position %d\n\n" % position)
