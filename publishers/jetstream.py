"""NATS JetStream: exactly once, by the chain of sequences the server checks and a stream that says itself how far it is.

Every message names the sequence it must follow (Nats-Expected-Last-Sequence), so that neither a late copy nor an earlier leader
can put anything between; Nats-Msg-Id alone would forget after the stream's duplicate window. Inside a batch in flight it also names
the message it must follow (Nats-Expected-Last-Msg-Id): when another leader has moved the stream on by a few, the middle of a late
batch would find the sequence it expects. Every message carries the live
checkpoint, so that the last one says where to go on.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from uuid import UUID

import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, Header, PubAck, RawStreamMsg, StorageType, StreamConfig

from publishers.cloud_events import Encoded, Outgoing, encode_http
from publishers.sink import Checkpoint, SinkError, SinkMovedError, SinkRefusedError, Tail
from publishers.sink_settings import NatsSink

_log = structlog.get_logger("icecore.sinks.nats")

MESSAGES_IN_FLIGHT_MAX = 256
CONNECT_SECONDS_MAX = 5
CLOSE_SECONDS_MAX = 1.0
_HEADERS_ROOM_BYTES = 1024
"""For the headers that are added to those of the event."""
CHECKPOINT_HEADER = "Icecore-Checkpoint"
CHECKPOINT_EVENT_HEADER = "Icecore-Checkpoint-Event"
NO_EVENT = "none"
_WRONG_LAST = frozenset({10070, 10071})
"""The last message's id, or its sequence, is not the one that was expected."""
_REFUSALS = frozenset({10054, 10060, 10077, 10115})
"""Too large, expected stream does not match, limits of the stream reached, header not allowed: nothing that passes by itself."""


class JetStream:
    """A stream of its own on a NATS server or cluster."""

    REMEMBERS: ClassVar[bool] = True
    BATCH_EVENTS_MAX: ClassVar[int] = 500

    def __init__(self, name: str, settings: NatsSink, base_url: str) -> None:
        self._name = name
        self._settings = settings
        self._base_url = base_url
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._sequence = 0
        self._event_bytes_max = settings.event_bytes_max

    async def open(self) -> Tail:
        try:
            async with asyncio.timeout(self._settings.answer_seconds_max):
                # Ours before it is connected: one that could not connect has something to close too.
                self._client = Client()
                await self._client.connect(**self._connection())
                self._stream = self._client.jetstream(timeout=self._settings.answer_seconds_max)
                self._event_bytes_max = min(self._settings.event_bytes_max, self._client.max_payload - _HEADERS_ROOM_BYTES)
                return await self._tail()
        except ImportError as error:
            raise SinkError(f"credentials files and nkeys need a package that is not installed: pip install {error.name}") from error
        except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
            raise SinkError(f"NATS cannot be reached or refuses: {error or type(error).__name__}") from error

    async def publish(self, events: Sequence[Outgoing], live: Checkpoint | None) -> int:
        for start in range(0, len(events), MESSAGES_IN_FLIGHT_MAX):
            await self._publish_chain(events[start : start + MESSAGES_IN_FLIGHT_MAX], live)
        return self._sequence

    async def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._client.close()
            self._client = None

    async def _publish_chain(self, events: Sequence[Outgoing], live: Checkpoint | None) -> None:
        """A failure in the middle leaves what stands before it; what comes after names a sequence that does not exist, and is refused."""
        messages = [self._encoded(event) for event in events]
        publishing = [
            self._publish_one(event, message, self._sequence + offset, events[offset - 1] if offset else None, live)
            for offset, (event, message) in enumerate(zip(events, messages, strict=True))
        ]
        answers = await asyncio.gather(*publishing, return_exceptions=True)
        for offset, (event, answer) in enumerate(zip(events, answers, strict=True)):
            if isinstance(answer, BaseException):
                raise self._failure(event, answer) from answer
            if answer.duplicate or answer.seq != self._sequence + offset + 1:
                raise SinkMovedError(f"stream {self._settings.stream} took {event.id} as {answer.seq}: it holds it already")
        self._sequence += len(events)

    async def _publish_one(
        self, event: Outgoing, message: Encoded, last_sequence: int, last: Outgoing | None, live: Checkpoint | None
    ) -> PubAck:
        assert self._stream is not None
        checkpoint = live or Checkpoint(event.position, event.event_id)
        noun, _, rest = event.topic.partition(".")
        headers = {
            **message.headers,
            Header.MSG_ID: event.id,
            Header.EXPECTED_LAST_SEQUENCE: str(last_sequence),
            CHECKPOINT_HEADER: str(checkpoint.position),
            CHECKPOINT_EVENT_HEADER: str(checkpoint.event_id or NO_EVENT),
        }
        if last is not None:
            # Not on the first: a server that was restarted has forgotten the id, and there the sequence is enough.
            headers[Header.EXPECTED_LAST_MSG_ID] = last.id
        subject = f"{self._settings.subject}.{event.warehouse_id}.{noun}.{rest.rpartition('.')[0]}"
        return await self._stream.publish(
            subject, message.body, timeout=self._settings.answer_seconds_max, stream=self._settings.stream, headers=headers
        )

    def _encoded(self, event: Outgoing) -> Encoded:
        message = encode_http(event, self._settings.mode)
        if message.bytes_count > self._event_bytes_max:
            message = encode_http(event.with_reference(self._base_url), self._settings.mode)
        return message

    def _failure(self, event: Outgoing, error: BaseException) -> BaseException:
        match error:
            case nats.js.errors.APIError(err_code=code) if code in _WRONG_LAST:
                return SinkMovedError(f"stream {self._settings.stream} is not where it was left: {error.description}")
            case nats.js.errors.APIError(err_code=code) if code in _REFUSALS:
                return SinkRefusedError(event, f"{error.description} (NATS error {code})")
            case nats.errors.MaxPayloadError():
                return SinkRefusedError(event, "larger than the server's max_payload, even without its data")
            case nats.errors.Error() | OSError():
                return SinkError(f"NATS did not take position {event.position}: {error or type(error).__name__}")
        return error

    async def _tail(self) -> Tail:
        """The last message that is left; the stream is made where there is none."""
        assert self._stream is not None
        stream = self._settings.stream
        try:
            info = await self._stream.stream_info(stream)
        except nats.js.errors.NotFoundError as error:
            if not self._settings.create:
                raise SinkError(f"NATS has no stream {stream}, and `create` is off") from error
            info = await self._stream.add_stream(self._new_stream())
            _log.info("stream_created", sink=self._name, stream=stream)
        self._sequence = info.state.last_seq
        if not info.state.messages:
            return Tail(None, self._sequence)
        checkpoint = self._checkpoint(await self._stream.get_last_msg(stream, f"{self._settings.subject}.>"))
        return Tail(checkpoint, self._sequence)

    def _new_stream(self) -> StreamConfig:
        return StreamConfig(
            name=self._settings.stream,
            subjects=[f"{self._settings.subject}.>"],
            storage=StorageType.FILE,
            num_replicas=self._settings.replicas,
            discard=DiscardPolicy.OLD,
            duplicate_window=self._settings.duplicate_window_seconds,
        )

    def _checkpoint(self, last: RawStreamMsg) -> Checkpoint:
        headers = last.headers or {}
        try:
            event_id = headers[CHECKPOINT_EVENT_HEADER]
            return Checkpoint(int(headers[CHECKPOINT_HEADER]), UUID(event_id) if event_id != NO_EVENT else None)
        except (KeyError, ValueError):
            raise SinkError(
                f"message {last.seq} of stream {self._settings.stream} is not Icecore's: a sink needs a stream of its own"
            ) from None

    def _connection(self) -> dict[str, Any]:
        """What is given to the client's `connect`; a lost connection is not opened again underneath us."""
        settings = self._settings
        for file in (settings.credentials_file, settings.nkey_seed_file):
            if file is not None:
                file.stat()  # the client's own words name no file
        options: dict[str, Any] = {
            "servers": list(settings.url),
            "name": f"icecore-{self._name}",
            "allow_reconnect": False,
            "connect_timeout": min(CONNECT_SECONDS_MAX, settings.answer_seconds_max),
            "user": settings.user,
            "password": None if settings.password is None else settings.password.get_secret_value(),
            "token": None if settings.token is None else settings.token.get_secret_value(),
            "user_credentials": None if settings.credentials_file is None else str(settings.credentials_file),
            "nkeys_seed": None if settings.nkey_seed_file is None else str(settings.nkey_seed_file),
            "error_cb": self._report,
        }
        if settings.tls_ca_file or settings.tls_certificate_file:
            context = ssl.create_default_context(cafile=settings.tls_ca_file)
            if settings.tls_certificate_file:
                context.load_cert_chain(settings.tls_certificate_file, settings.tls_key_file)
            options["tls"] = context
        return {name: value for name, value in options.items() if value is not None}

    async def _report(self, error: Exception) -> None:
        _log.debug("nats_error", sink=self._name, error=str(error) or type(error).__name__)
