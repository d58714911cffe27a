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
from .cloud_events import Encoded, Outgoing, encode_http
from .setting_files import require_file
from .sink import Checkpoint, SinkError, SinkMovedError, SinkPosition, SinkRefusedError
from .sink_settings import NatsSink

_log = structlog.get_logger("icecore.sinks.nats")

MESSAGES_IN_FLIGHT_MAX = 500
"""A whole batch goes out at once; the next is made while it is answered."""
CONNECT_SECONDS_MAX = 5
CLOSE_SECONDS_MAX = 1.0
_HEADERS_ROOM_BYTES = 1024
"""For the headers that are added to those of the event."""
CHECKPOINT_HEADER = "Icecore-Checkpoint"
CHECKPOINT_EVENT_HEADER = "Icecore-Checkpoint-Event"
NO_EVENT = "none"
_NO_RESPONDERS = "503"
# As plain text: a member of an enumeration is hashed by a call of Python's, for every header of every message.
_EXPECTED_STREAM, _MSG_ID = Header.EXPECTED_STREAM.value, Header.MSG_ID.value
_EXPECTED_LAST_SEQUENCE, _EXPECTED_LAST_MSG_ID = Header.EXPECTED_LAST_SEQUENCE.value, Header.EXPECTED_LAST_MSG_ID.value
_WRONG_LAST = frozenset({10070, 10071})
"""The last message's id, or its sequence, is not the one that was expected."""
_REFUSALS = {
    10054: "larger than the stream's limit",
    10060: "the subject belongs to another stream",
    10077: "the stream's limits are reached",
    10115: "the stream does not accept one of the headers",
}
"""Nothing that passes by itself."""


class JetStream:
    """A stream of its own on a NATS server or cluster."""

    REMEMBERS: ClassVar[bool] = True
    BATCH_EVENTS_MAX: ClassVar[int] = MESSAGES_IN_FLIGHT_MAX

    def __init__(self, name: str, settings: NatsSink, base_url: str) -> None:
        self._name = name
        self._settings = settings
        self._base_url = base_url
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._sequence = 0
        # Of the batch that is on its way, by the number a message asks to be kept as.
        self._inbox = ""
        self._answers: dict[int, Msg] = {}
        self._answers_wanted = 0
        self._all_answered = asyncio.Event()
        self._event_bytes_max = settings.event_bytes_max

    async def open(self) -> SinkPosition:
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                # Ours before it is connected: one that could not connect has something to close too.
                self._client = Client()
                await self._client.connect(**self._connection())
                self._stream = self._client.jetstream(timeout=self._settings.timeout_seconds)
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)
                self._event_bytes_max = min(self._settings.event_bytes_max, self._client.max_payload - _HEADERS_ROOM_BYTES)
                return await self._tail()
        except ImportError as error:
            raise SinkError(f"credentials files and nkeys need the package {error.name}: pip install {error.name}") from error
        except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
            # Its text may hold the server's URL and what the server answered.
            raise SinkError(f"NATS is unreachable or refuses the connection: {client_error_text(error, self._addresses())}") from None

    async def publish(self, events: Sequence[Outgoing], live: Checkpoint | None) -> int:
        """A failure in the middle leaves what stands before it; what comes after names a sequence that does not exist, and is refused."""
        self._answers.clear()
        self._answers_wanted = len(events)
        self._all_answered.clear()
        unsent: Exception | None = None
        sent = 0
        # One limit for all of them: a task and a timer for each message took as long as sending it.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.timeout_seconds):
                try:
                    for event in events:
                        await self._send(event, self._sequence + sent, events[sent - 1] if sent else None, live)
                        sent += 1
                except (nats.errors.Error, OSError) as error:
                    # What stands before it is still answered.
                    unsent, self._answers_wanted = error, sent
                if len(self._answers) < self._answers_wanted:
                    await self._all_answered.wait()
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

    async def _answered(self, answer: Msg) -> None:
        self._answers[int(answer.subject.rpartition(".")[2])] = answer
        if len(self._answers) >= self._answers_wanted:
            self._all_answered.set()

    def _check(self, event: Outgoing, sequence: int) -> None:
        """That the event is kept as the message of that number."""
        try:
            kept = _acknowledged(self._answers.get(sequence))
        except nats.errors.Error as error:
            raise self._failure(event, error) from error
        if kept.get("duplicate") or kept["seq"] != sequence:
            raise SinkMovedError(f"stream {self._settings.stream} took {event.id} as {kept['seq']}: the stream has it already")

    async def _send(self, event: Outgoing, last_sequence: int, last: Outgoing | None, live: Checkpoint | None) -> None:
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
            # Not on the first: a server that was restarted has forgotten the id, and there the sequence is enough.
            headers[_EXPECTED_LAST_MSG_ID] = last.id
        subject = f"{self._settings.subject}.{event.warehouse_id}.{event.topic.rpartition('.')[0]}"
        # Not by the JetStream context: its `publish` waits for each answer, its `publish_async` loses those that are refusals.
        await self._client.publish(subject, message.body, reply=f"{self._inbox}.{last_sequence + 1}", headers=headers)

    def _encoded(self, event: Outgoing) -> Encoded:
        message = encode_http(event, self._settings.mode)
        if message.bytes_count > self._event_bytes_max:
            message = encode_http(event.with_reference(self._base_url), self._settings.mode)
        return message

    def _failure(self, event: Outgoing, error: BaseException) -> BaseException:
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
        """The last message that is left; the stream is made where there is none."""
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
        """What is given to the client's `connect`; a lost connection is not opened again underneath us."""
        settings = self._settings
        for setting in ("credentials_file", "nkey_seed_file", "tls_ca_file", "tls_certificate_file", "tls_key_file"):
            require_file(setting, getattr(settings, setting))
        options: dict[str, Any] = {
            "servers": list(settings.url),
            "name": f"icecore-{self._name}",
            "allow_reconnect": False,
            "skip_subject_validation": True,  # ours are made of names that were looked at, ids and topics
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


def _acknowledged(answer: Msg | None) -> dict[str, Any]:
    """Where the message was kept. Raises the client's errors: for a refusal, for a subject no stream listens to, for no answer."""
    if answer is None:
        raise nats.errors.TimeoutError
    if answer.headers and answer.headers.get(Header.STATUS) == _NO_RESPONDERS:
        raise nats.js.errors.NoStreamResponseError
    said: dict[str, Any] = orjson.loads(answer.data)
    if "error" in said:
        raise nats.js.errors.APIError.from_error(said["error"])
    return said
