"""Server-sent events: the log after a position, then each new event, as fast as the client reads (WHATWG HTML, 9.2)."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

import structlog
from aiohttp import ClientError, web

from ...domain.errors import ServiceUnavailable
from ..api_request import ApiRequest
from ..byte_budget import UNCOUNTED_BYTES_MAX, BudgetExhausted, BudgetReservation, ContentReservation
from ..origins import ORIGIN_RULES
from ..piece_payload import PIECE_BYTES, split_copies
from ..request_ids import REQUEST_ID, set_response_headers
from .event_source import EventReader, EventSource, PublishedEvent, PublishedEvents
from .large_events import LargeEvents

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")

Read = TypeVar("Read")

EVENT_STREAM = "text/event-stream"

HEARTBEAT_SECONDS = 15.0
"""Interval of comments on a quiet stream, so that proxies do not close it."""
WRITE_SECONDS_MAX = 30.0
"""A client that does not read one piece in this time is disconnected. It reconnects with Last-Event-ID."""
CONTENDED_WRITE_SECONDS_MAX = 4.0
"""The same limit while other streams wait for memory for large events: 16 KiB per second, as for responses."""
LARGE_EVENTS: web.AppKey[LargeEvents] = web.AppKey("large_events", LargeEvents)
_POLL_SECONDS = 1.0
_LAST_WRITE_SECONDS_MAX = 1.0
_HEADERS = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def stream_events(request: ApiRequest, source: EventSource, reader: EventReader, after: int, to: int | None) -> web.StreamResponse:
    """Sends the events after a position and up to `to`, until the client disconnects or the server stops. Raises TooManyRequests."""
    http_request = request.http_request
    with source.subscription():
        response = web.StreamResponse(headers=_HEADERS)
        set_response_headers(response, http_request[REQUEST_ID])
        request.app[ORIGIN_RULES].add_cors_headers(http_request, response)
        batches = _Batches(reader, request.app[LARGE_EVENTS])
        stream = _Stream(http_request, response, source, batches)
        try:
            await response.prepare(http_request)
            await stream.write(b": the log from position %d on\n\n" % (after + 1))
            await _send_events(stream, source, batches, after, to)
            await response.write_eof()
        except (ConnectionError, ClientError, TimeoutError):
            # The client has disconnected or does not read, so no error can be sent.
            _cut(http_request)
        except Exception as error:
            # A response that has begun cannot become an error response. The client reconnects and gets the error then.
            _log.error("event_stream_failed", request_id=http_request[REQUEST_ID], exc_info=error)
            _cut(http_request)
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
            await batches.pause(_POLL_SECONDS)
        elif sent_to == position:
            await source.wait_for_event(position, _POLL_SECONDS)
        else:
            position = sent_to
        # Sent after each batch too: if a filter matches nothing, nothing else is written that would detect a disconnect.
        await stream.heartbeat(position)


async def _send_batch(stream: "_Stream", batches: "_Batches", position: int, to: int | None) -> int | None:
    """Sends one batch and keeps none of it. Returns the position to continue from, which is `position` at the end of the log; None if
    nothing could be read.
    """
    batch = await stream.while_there(batches.read(position, to))
    if batch is None or batch.at_end:
        return None if batch is None else position
    for piece in _pieces(batch.events):
        await stream.write(piece)
    batches.written()
    return batch.position


def _pieces(events: Iterable[PublishedEvent]) -> Iterator[bytes | bytearray]:
    """The events as bytes to write. Small events share a piece and large ones are divided, because what the client has not read is
    copied.
    """
    piece = bytearray()
    for event in events:
        piece += b"id: %d\nevent: %b\ndata: " % (event.position, event.type.encode())
        if len(event.body) >= PIECE_BYTES:
            yield piece
            yield from split_copies(event.body)
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
    """The batches of one stream, one after the other. Large events reserve memory while they are written."""

    def __init__(self, reader: EventReader, budget: LargeEvents) -> None:
        self._reader, self._budget = reader, budget
        self._reservations: list[ContentReservation] = []
        self._expected_bytes = 0
        self._waits = False

    async def read(self, position: int, to: int | None) -> PublishedEvents | None:
        """None if the log cannot be read now, or there is no memory: a response that has begun cannot report an error."""
        expected = BudgetReservation(self._budget)
        try:
            if self._expected_bytes:
                # A batch for which there was no memory is read again only when it is this stream's turn.
                self._budget.check_turn(self)
                expected.reserve(self._expected_bytes)
                self._leave()
            batch = await self._reader.batch(position, to=to)
            large = [event.body for event in batch.events if len(event.body) > UNCOUNTED_BYTES_MAX]
            if self._budget.size_of(large) > self._expected_bytes:
                self._expected_bytes = sum(map(len, large))
                self._budget.check_turn(self)
            expected.release()
            # New events are one object for all streams that have caught up.
            self._reservations = self._budget.reserve_contents(large)
        except BudgetExhausted:
            self._waits = True
            self._budget.enter(self)
            return None
        except ServiceUnavailable:
            return None
        self._expected_bytes = 0
        return batch

    async def pause(self, seconds: float) -> None:
        """Waits after a batch that could not be read."""
        await (self._budget.turn(self, seconds) if self._waits else asyncio.sleep(seconds))

    @property
    def keep_others_waiting(self) -> bool:
        """Whether other streams wait for memory that this stream holds or is the next to get."""
        return (bool(self._reservations) or self._waits) and self._budget.is_waited_for

    def written(self) -> None:
        for reservation in self._reservations:
            reservation.release()
        self._reservations = []

    def close(self) -> None:
        self.written()
        self._leave()

    def _leave(self) -> None:
        if self._waits:
            self._waits = False
            self._budget.leave(self)


class _Stream:
    """One response in progress."""

    def __init__(self, request: web.Request, response: web.StreamResponse, source: EventSource, batches: _Batches) -> None:
        self._batches = batches
        self._request = request
        self._response = response
        self._source = source
        self._written_at = 0.0

    async def write(self, piece: bytes | bytearray) -> None:
        """Returns once the client has read most of it. Raises ConnectionError if the client has disconnected, TimeoutError if it does not
        read.
        """
        loop = asyncio.get_running_loop()
        writing = asyncio.ensure_future(self._response.write(piece))
        began = loop.time()
        end = began + WRITE_SECONDS_MAX
        try:
            while not (await asyncio.wait({writing}, timeout=_POLL_SECONDS))[0]:
                if self._batches.keep_others_waiting:
                    end = min(end, began + CONTENDED_WRITE_SECONDS_MAX)
                if self._source.is_stopping:
                    end = min(end, loop.time() + _LAST_WRITE_SECONDS_MAX)
                if loop.time() >= end:
                    raise TimeoutError
            writing.result()
        finally:
            writing.cancel()
            # Breaks a reference cycle of this frame, the task and its error, which would keep the stream's memory until a garbage
            # collection.
            del writing
        self._written_at = loop.time()

    async def while_there(self, reading: Coroutine[Any, Any, Read]) -> Read:
        """The result of reading, unless the client disconnects while it waits for a connection. Then it raises ConnectionError."""
        task = asyncio.create_task(reading, name="event-stream-batch")
        try:
            while not (await asyncio.wait({task}, timeout=_POLL_SECONDS))[0]:
                self._check_there()
            return task.result()
        finally:
            task.cancel()
            del task  # A reference cycle as in `write`.

    def _check_there(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError

    async def heartbeat(self, position: int) -> None:
        """Writes a comment if nothing was written for long. Raises ConnectionError if the client has disconnected."""
        self._check_there()
        if asyncio.get_running_loop().time() - self._written_at >= HEARTBEAT_SECONDS:
            await self.write(b": position %d\n\n" % position)
