"""NATS JetStream: exactly-once publishing. The server checks the chain of sequences, and the stream itself contains the sink's position.

Every message names the sequence it must follow (Nats-Expected-Last-Sequence), so that neither a late copy nor a former leader can insert
a message. Nats-Msg-Id alone would not suffice after the stream's duplicate window. Inside a batch in flight, a message also names the
message it must follow (Nats-Expected-Last-Msg-Id): if another leader has published a few messages, the middle of a late batch could
otherwise find the sequence it expects. Every message contains the live checkpoint, so that the last one says where to continue.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from uuid import UUID

import nats.errors
import nats.js.errors
import orjson
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, Header, RawStreamMsg, StorageType, StreamConfig

from ..domain.client_errors import address_of, client_error_text
from .cloud_events import EncodedMessage, OutgoingEvent, encode_http
from .setting_files import require_file
from .sink import Checkpoint, SinkError, SinkMovedError, SinkPosition, SinkRefusedError
from .sink_settings import NatsSink

_log = structlog.get_logger("icecore.sinks.nats")

MESSAGES_IN_FLIGHT_MAX = 500
"""A whole batch is sent at once; the next is prepared while the server acknowledges it."""
CONNECT_SECONDS_MAX = 5
CLOSE_SECONDS_MAX = 1.0
_HEADERS_ROOM_BYTES = 1024
"""Room for the headers that are added to those of the event."""
CHECKPOINT_HEADER = "Icecore-Checkpoint"
CHECKPOINT_EVENT_HEADER = "Icecore-Checkpoint-Event"
NO_EVENT = "none"
_NO_RESPONDERS = "503"
# As strings: hashing an enum member calls Python code for every header of every message.
_EXPECTED_STREAM, _MSG_ID = Header.EXPECTED_STREAM.value, Header.MSG_ID.value
_EXPECTED_LAST_SEQUENCE, _EXPECTED_LAST_MSG_ID = Header.EXPECTED_LAST_SEQUENCE.value, Header.EXPECTED_LAST_MSG_ID.value
_WRONG_LAST = frozenset({10070, 10071})
"""The id or sequence of the stream's last message is not the expected one."""
_REFUSALS = {
    10054: "larger than the stream's limit",
    10060: "the subject belongs to another stream",
    10077: "the stream's limits are reached",
    10115: "the stream does not accept one of the headers",
}
"""Errors that do not resolve themselves."""


class JetStream:
    """A dedicated stream on a NATS server or cluster."""

    STORES_POSITION: ClassVar[bool] = True
    BATCH_EVENTS_MAX: ClassVar[int] = MESSAGES_IN_FLIGHT_MAX

    def __init__(self, name: str, settings: NatsSink, base_url: str) -> None:
        self._name = name
        self._settings = settings
        self._base_url = base_url
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._sequence = 0
        # The acknowledgements of the batch in flight, by the expected sequence of each message.
        self._inbox = ""
        self._responses: dict[int, Msg] = {}
        self._responses_expected = 0
        self._all_responded = asyncio.Event()
        self._event_bytes_max = settings.event_bytes_max

    async def open(self) -> SinkPosition:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                # Stored before it is connected, because it must be closed even if it cannot connect.
                self._client = Client()
                await self._client.connect(**self._connection())
                self._stream = self._client.jetstream(timeout=self._settings.timeout_seconds)
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(f"{self._inbox}.*", cb=self._on_response)
                self._event_bytes_max = min(self._settings.event_bytes_max, self._client.max_payload - _HEADERS_ROOM_BYTES)
                return await self._tail()
        except ImportError as error:
            raise SinkError(f"credentials files and nkeys need the package {error.name}: pip install {error.name}") from error
        except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
            # The client repeats a failed connection until the timeout. Its text may contain the server's URL and response.
            failure = (self._client and self._client.last_error) or error if isinstance(error, TimeoutError) else error
            raise SinkError(f"NATS is unreachable or refuses the connection: {client_error_text(failure, self._addresses())}") from None

    async def publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        """If a message fails, those before it are stored, and those after it are refused, because they expect a missing sequence."""
        self._responses.clear()
        self._responses_expected = len(events)
        self._all_responded.clear()
        unsent: Exception | None = None
        sent = 0
        # One timeout for all messages: a task and a timer for each take as long as sending it.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    for event in events:
                        await self._send(event, self._sequence + sent, events[sent - 1] if sent else None, live)
                        sent += 1
                except (nats.errors.Error, OSError) as error:
                    # The messages before it are still acknowledged.
                    unsent, self._responses_expected = error, sent
                if len(self._responses) < self._responses_expected:
                    await self._all_responded.wait()
        for offset, event in enumerate(events[:sent]):
            self._check(event, self._sequence + offset + 1)
        if sent < len(events):
            problem = unsent or nats.errors.TimeoutError()
            raise self._failure(events[sent], problem) from problem
        self._sequence += len(events)
        return self._sequence

    async def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await self._client.close()
            self._client = None

    async def _on_response(self, response: Msg) -> None:
        self._responses[int(response.subject.rpartition(".")[2])] = response
        if len(self._responses) >= self._responses_expected:
            self._all_responded.set()

    def _check(self, event: OutgoingEvent, sequence: int) -> None:
        """Raises unless the event was stored with that sequence."""
        try:
            kept = _acknowledged(self._responses.get(sequence))
        except nats.errors.Error as error:
            raise self._failure(event, error) from error
        if kept.get("duplicate") or kept["seq"] != sequence:
            raise SinkMovedError(f"stream {self._settings.stream} already contains {event.id} as message {kept['seq']}")

    async def _send(self, event: OutgoingEvent, last_sequence: int, last: OutgoingEvent | None, live: Checkpoint | None) -> None:
        assert self._client is not None
        message = self._encoded(event)
        headers = {
            **message.headers,
            _EXPECTED_STREAM: self._settings.stream,
            _MSG_ID: event.id,
            _EXPECTED_LAST_SEQUENCE: str(last_sequence),
            CHECKPOINT_HEADER: str(event.position if live is None else live.position),
            CHECKPOINT_EVENT_HEADER: event.id if live is None else str(live.event_id or NO_EVENT),
        }
        if last is not None:
            # Not for the first: a restarted server does not know the id any more, and the sequence is enough.
            headers[_EXPECTED_LAST_MSG_ID] = last.id
        subject = f"{self._settings.subject}.{event.warehouse_id}.{event.topic.rpartition('.')[0]}"
        # Not with the JetStream context: its `publish` waits for each acknowledgement, and its `publish_async` loses refusals.
        await self._client.publish(subject, message.body, reply=f"{self._inbox}.{last_sequence + 1}", headers=headers)

    def _encoded(self, event: OutgoingEvent) -> EncodedMessage:
        message = encode_http(event, self._settings.mode)
        if message.bytes_count > self._event_bytes_max:
            message = encode_http(event.with_reference(self._base_url), self._settings.mode)
        return message

    def _failure(self, event: OutgoingEvent, error: BaseException) -> BaseException:
        match error:
            case nats.js.errors.APIError(err_code=code) if code in _WRONG_LAST:
                return SinkMovedError(f"stream {self._settings.stream} was changed by another publisher (NATS error {code})")
            case nats.js.errors.APIError(err_code=code) if code in _REFUSALS:
                return SinkRefusedError(event, f"{_REFUSALS[code]} (NATS error {code})")
            case nats.errors.MaxPayloadError():
                return SinkRefusedError(event, "larger than the server's max_payload, even without its data")
            case nats.errors.Error() | OSError():
                return SinkError(f"NATS did not accept position {event.position}: {client_error_text(error, self._addresses())}")
        return error

    async def _tail(self) -> SinkPosition:
        """The position of the last message in the stream, which is created if it does not exist."""
        assert self._stream is not None
        stream = self._settings.stream
        try:
            info = await self._stream.stream_info(stream)
        except nats.js.errors.NotFoundError as error:
            if not self._settings.create:
                raise SinkError(f"NATS has no stream {stream}, and `create` is false") from error
            info = await self._stream.add_stream(self._new_stream())
            _log.info("stream_created", sink=self._name, stream=stream)
        self._sequence = info.state.last_seq
        if not info.state.messages:
            return SinkPosition(None, self._sequence)
        checkpoint = self._checkpoint(await self._stream.get_last_msg(stream, f"{self._settings.subject}.>"))
        return SinkPosition(checkpoint, self._sequence)

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
        """The arguments of the client's `connect`; the client does not reconnect by itself."""
        settings = self._settings
        for setting in ("credentials_file", "nkey_seed_file", "tls_ca_file", "tls_certificate_file", "tls_key_file"):
            require_file(setting, getattr(settings, setting))
        options: dict[str, Any] = {
            "servers": list(settings.url),
            "name": f"icecore-{self._name}",
            "allow_reconnect": False,
            "skip_subject_validation": True,  # The subject contains only validated names, ids and topics.
            "connect_timeout": min(CONNECT_SECONDS_MAX, settings.timeout_seconds),
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
        _log.debug("nats_error", sink=self._name, error=client_error_text(error, self._addresses()))

    def _addresses(self) -> str:
        return ", ".join(filter(None, map(address_of, self._settings.url)))


def _acknowledged(response: Msg | None) -> dict[str, Any]:
    """The acknowledgement of a message. Raises the client's errors: for a refusal, a subject without a stream, no response."""
    if response is None:
        raise nats.errors.TimeoutError
    if response.headers and response.headers.get(Header.STATUS) == _NO_RESPONDERS:
        raise nats.js.errors.NoStreamResponseError
    acknowledgement: dict[str, Any] = orjson.loads(response.data)
    if "error" in acknowledgement:
        raise nats.js.errors.APIError.from_error(acknowledgement["error"])
    return acknowledgement
