"""Server-sent events: the log after a position, then each new event, as fast as the client reads (WHATWG HTML, 9.2)."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

import structlog
from aiohttp import ClientError, web

from ...domain.errors import ServiceUnavailable
from ..api_request import ApiRequest
from ..byte_budget import UNCOUNTED_BYTES_MAX, BudgetUsedUp, HeldBytes, HeldContent
from ..origins import ORIGIN_RULES
from ..piece_payload import PIECE_BYTES, cut
from ..request_ids import REQUEST_ID, set_response_headers
from .event_source import EventReader, EventSource, PublishedEvent, PublishedEvents
from .large_events import LargeEvents

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

Read = TypeVar("Read")

EVENT_STREAM = "text/event-stream"

HEARTBEAT_SECONDS = 15.0
"""A stream that has nothing to tell says so, before a proxy takes it for dead."""
WRITE_SECONDS_MAX = 30.0
"""A client that takes not even one piece in this time is cut off; it comes back with Last-Event-ID."""
CROWDED_WRITE_SECONDS_MAX = 4.0
"""The same while others find no room for large events: 16 KiB a second, as of answers."""
LARGE_EVENTS: web.AppKey[LargeEvents] = web.AppKey("large_events", LargeEvents)
_LOOK_SECONDS = 1.0
_LAST_WRITE_SECONDS_MAX = 1.0
_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream_events(call: ApiRequest, source: EventSource, reader: EventReader, after: int, to: int | None) -> web.StreamResponse:
    """Everything after a position and not after `to`, until the client goes or the server stops. TooManyRequests."""
    request = call.request
    with source.following():
        response = web.StreamResponse(headers=_HEADERS)
        set_response_headers(response, request[REQUEST_ID])
        call.app[ORIGIN_RULES].permit_reading(request, response)
        batches = _Batches(reader, call.app[LARGE_EVENTS])
        stream = _Stream(request, response, source, batches)
        try:
            await response.prepare(request)
            await stream.write(b": the log from position %d on\n\n" % (after + 1))
            await _send_events(stream, source, batches, after, to)
            await response.write_eof()
        except (ConnectionError, ClientError, TimeoutError):
            # The client has gone, or takes nothing: there is nobody to tell of it.
            _cut(request)
        except Exception as error:
            # An answer that has begun cannot become another one: the client comes back, and hears it then.
            _log.error("event_stream_failed", request_id=request[REQUEST_ID], exc_info=error)
            _cut(request)
        finally:
            batches.close()
        return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _send_events(stream: "_Stream", source: EventSource, batches: "_Batches", after: int, to: int | None) -> None:
    position = after
    while position != to and not source.is_stopping:
        sent_to = await _send_batch(stream, batches, position, to)
        if sent_to is None:
            await batches.pause(_LOOK_SECONDS)
        elif sent_to == position:
            await source.arrived(position, _LOOK_SECONDS)
        else:
            position = sent_to
        # After each batch: a filter may let nothing through, and then nothing is written that would fail.
        await stream.heartbeat(position)


async def _send_batch(stream: "_Stream", batches: "_Batches", position: int, to: int | None) -> int | None:
    """The position to go on from, `position` at the end of the log; None where nothing could be read. Nothing is kept of the batch."""
    batch = await stream.while_there(batches.read(position, to))
    if batch is None or batch.at_end:
        return None if batch is None else position
    for piece in _pieces(batch.events):
        await stream.write(piece)
    batches.written()
    return batch.position


def _pieces(events: Iterable[PublishedEvent]) -> Iterator[bytes | bytearray]:
    """The events as they are written, several in a piece, and large ones in several: what the client has not taken is copied on the way."""
    piece = bytearray()
    for event in events:
        piece += b"id: %d\nevent: %b\ndata: " % (event.position, event.type.encode())
        if len(event.body) >= PIECE_BYTES:
            yield piece
            yield from cut(event.body)
            piece = bytearray()
        else:
            piece += event.body
        piece += b"\n\n"
        if len(piece) >= PIECE_BYTES:
            yield piece
            piece = bytearray()
    if piece:
        yield piece


class _Batches:
    """What one stream reads, one batch after the other; large events take room while they are written."""

    def __init__(self, reader: EventReader, room: LargeEvents) -> None:
        self._reader, self._room = reader, room
        self._held: list[HeldContent] = []
        self._expected_bytes = 0
        self._waits = False

    async def read(self, position: int, to: int | None) -> PublishedEvents | None:
        """None where the log cannot be read for now, or there is no room: an answer that has begun can no longer say so."""
        expected = HeldBytes(self._room)
        try:
            if self._expected_bytes:
                # What found no room the last time is not read again in vain, and has its room once it is its turn.
                self._room.check_turn(self)
                expected.take(self._expected_bytes)
                self._leave()
            batch = await self._reader.batch(position, to=to)
            large = [event.body for event in batch.events if len(event.body) > UNCOUNTED_BYTES_MAX]
            if self._room.size_of(large) > self._expected_bytes:
                self._expected_bytes = sum(map(len, large))
                self._room.check_turn(self)
            expected.release()
            # What just came is one object for all who follow.
            self._held = self._room.hold_all(large)
        except BudgetUsedUp:
            self._waits = True
            self._room.enter(self)
            return None
        except ServiceUnavailable:
            return None
        self._expected_bytes = 0
        return batch

    async def pause(self, seconds: float) -> None:
        """After a batch that could not be read."""
        await (self._room.turn(self, seconds) if self._waits else asyncio.sleep(seconds))

    @property
    def keep_others_waiting(self) -> bool:
        """Whether some wait for room while this stream has some, or stands in their way."""
        return (bool(self._held) or self._waits) and self._room.is_waited_for

    def written(self) -> None:
        for held in self._held:
            held.release()
        self._held = []

    def close(self) -> None:
        self.written()
        self._leave()

    def _leave(self) -> None:
        if self._waits:
            self._waits = False
            self._room.leave(self)


class _Stream:
    """One answer under way."""

    def __init__(self, request: web.Request, response: web.StreamResponse, source: EventSource, batches: _Batches) -> None:
        self._batches = batches
        self._request = request
        self._response = response
        self._source = source
        self._written_at = 0.0

    async def write(self, piece: bytes | bytearray) -> None:
        """Returns once the client has taken most of it. Raises ConnectionError where it has gone, TimeoutError where it takes nothing."""
        loop = asyncio.get_running_loop()
        writing = asyncio.ensure_future(self._response.write(piece))
        began = loop.time()
        end = began + WRITE_SECONDS_MAX
        try:
            while not (await asyncio.wait({writing}, timeout=_LOOK_SECONDS))[0]:
                if self._batches.keep_others_waiting:
                    end = min(end, began + CROWDED_WRITE_SECONDS_MAX)
                if self._source.is_stopping:
                    end = min(end, loop.time() + _LAST_WRITE_SECONDS_MAX)
                if loop.time() >= end:
                    raise TimeoutError
            writing.result()
        finally:
            writing.cancel()
            # A cycle otherwise, of this frame, the task and its error: what the stream holds would stay until the next collection.
            del writing
        self._written_at = loop.time()

    async def while_there(self, reading: Coroutine[Any, Any, Read]) -> Read:
        """What is read; a client that has gone waits for no connection. Raises ConnectionError then."""
        task = asyncio.create_task(reading, name="event-stream-batch")
        try:
            while not (await asyncio.wait({task}, timeout=_LOOK_SECONDS))[0]:
                self._check_there()
            return task.result()
        finally:
            task.cancel()
            del task  # As in `write`.

    def _check_there(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError

    async def heartbeat(self, position: int) -> None:
        """A comment, if nothing was written for long. Raises ConnectionError where the client has gone."""
        self._check_there()
        if asyncio.get_running_loop().time() - self._written_at >= HEARTBEAT_SECONDS:
            await self.write(b": position %d\n\n" % position)
