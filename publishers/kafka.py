"""Kafka: exactly-once publishing for consumers that read committed, with transactions that contain events and the sink's position.

The position is in a compacted topic and is written in the transaction of the events. It is read after `init_transactions` has aborted
what a former leader left open and fenced that leader off.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import orjson
import structlog
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ..domain.client_errors import address_of, known_phrases
from .cloud_events import EncodedMessage, OutgoingEvent, encode_kafka
from .setting_files import read_secret, require_file
from .sink import Checkpoint, SinkError, SinkMovedError, SinkPosition, SinkRefusedError
from .sink_settings import KafkaSink

_log = structlog.get_logger("icecore.sinks.kafka")
_T = TypeVar("_T")

EVENTS_PER_TRANSACTION = 100
_STEP_SECONDS = 0.5
"""A call into the client returns at least this often, to see whether the sink was closed."""
_CLOSE_SECONDS_MAX = 2.0
_MESSAGE_ROOM_BYTES = 64 * 1024
"""How much the client's limit exceeds ours, since it counts what it adds."""
_TAIL_RECORDS = 64
_MOVED = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_ID_MAPPING}
)
_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.RECORD_LIST_TOO_LARGE})


class Kafka:
    """A dedicated topic on a Kafka cluster, and its checkpoint topic."""

    STORES_POSITION: ClassVar[bool] = True
    BATCH_EVENTS_MAX: ClassVar[int] = 500

    def __init__(self, name: str, settings: KafkaSink, base_url: str) -> None:
        self._name = name
        self._settings = settings
        self._base_url = base_url
        self._checkpoint_topic = settings.checkpoint_topic or f"{settings.topic}.checkpoint"
        self._configuration = client_properties(name, settings) | {"error_cb": self._note}
        # The last error reported by a client: a call that fails afterwards only reports that no broker responded.
        self._complaint = ""
        # librdkafka's calls block, so they run in a thread of their own.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"kafka-{name}")
        self._closed = threading.Event()
        self._producer: Producer | None = None

    async def open(self) -> SinkPosition:
        return await self._run(self._open)

    async def publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        return await self._run(partial(self._publish, events, live))

    async def close(self) -> None:
        self._closed.set()
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        await asyncio.wait({closing}, timeout=_CLOSE_SECONDS_MAX)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except KafkaException as error:
            # Its text may contain the value of a property and a broker's response.
            raise self._as_sink_error(error) from None

    def _as_sink_error(self, failure: KafkaException) -> SinkError:
        error: KafkaError = failure.args[0]
        if error.code() in _MOVED:
            return SinkMovedError(f"another producer took over this sink's transactions: {_described(error)}")
        return SinkError(connection_failure(error, self._complaint, self._settings, self._configuration))

    def _note(self, error: KafkaError) -> None:
        self._complaint = complaint_of(error) or self._complaint

    def _open(self) -> SinkPosition:
        self._make_topics()
        producer = Producer(_producer_properties(self._name, self._settings) | self._configuration, logger=None)
        self._producer = producer
        self._until_done(producer.init_transactions)
        checkpoint = self._read_checkpoint()
        return SinkPosition(checkpoint, 0 if checkpoint is None else checkpoint.position)

    def _publish(self, events: Sequence[OutgoingEvent], live: Checkpoint | None) -> int:
        """Runs all transactions in the thread, without waiting for the event loop, which is preparing the next batch."""
        broker_sequence = 0
        for start in range(0, len(events), EVENTS_PER_TRANSACTION):
            if self._closed.is_set():
                raise SinkError("closed while events were being sent")
            part = events[start : start + EVENTS_PER_TRANSACTION]
            checkpoint = live or Checkpoint(part[-1].position, part[-1].event_id)
            self._transaction(part, checkpoint)
            broker_sequence = checkpoint.position
        return broker_sequence

    def _transaction(self, events: Sequence[OutgoingEvent], checkpoint: Checkpoint) -> None:
        """Events need no callbacks: the commit fails if one was not delivered, and a broker refuses a whole request."""
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        try:
            for event in events:
                self._produce(producer, event)
            producer.produce(self._checkpoint_topic, key=self._name, value=_checkpoint_value(checkpoint), partition=0)
            self._until_done(producer.commit_transaction)
        except (KafkaException, SinkRefusedError) as error:
            self._abort(producer, error)
            if isinstance(error, KafkaException) and error.args[0].code() in _REFUSED:
                raise SinkRefusedError(events[0], _described(error.args[0]), among=len(events)) from None
            raise

    def _produce(self, producer: Producer, event: OutgoingEvent) -> None:
        message = self._encoded(event)
        try:
            producer.produce(self._settings.topic, key=event.key, value=message.body, headers=list(message.headers.items()))
        except KafkaException as error:
            if error.args[0].code() in _REFUSED:
                raise SinkRefusedError(event, _described(error.args[0])) from None
            raise

    def _encoded(self, event: OutgoingEvent) -> EncodedMessage:
        message = encode_kafka(event, self._settings.mode)
        if message.bytes_count > self._settings.event_bytes_max:
            message = encode_kafka(event.with_reference(self._base_url), self._settings.mode)
        return message

    def _abort(self, producer: Producer, error: Exception) -> None:
        """Tries to abort; otherwise the next `init_transactions` aborts the open transaction."""
        if isinstance(error, KafkaException) and error.args[0].fatal():
            return
        try:
            producer.abort_transaction(_STEP_SECONDS)
        except KafkaException as failure:
            _log.debug("abort_failed", sink=self._name, error=_described(failure.args[0]))

    def _until_done(self, call: Callable[[float], object]) -> None:
        """Repeats a call that may be repeated, until the timeout or until the sink is closed."""
        deadline = time.monotonic() + self._settings.timeout_seconds
        while True:
            try:
                call(_STEP_SECONDS)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline or self._closed.is_set():
                    raise

    def _make_topics(self) -> None:
        admin = AdminClient(self._configuration)
        seconds = self._settings.timeout_seconds
        try:
            there = admin.list_topics(timeout=seconds).topics
        except KafkaException:
            admin.poll(0)  # Calls the error callbacks.
            raise
        missing = [
            NewTopic(self._settings.topic, self._settings.partitions, self._settings.replicas),
            NewTopic(self._checkpoint_topic, 1, self._settings.replicas, config={"cleanup.policy": "compact"}),
        ]
        missing = [topic for topic in missing if topic.topic not in there]
        if missing and not self._settings.create:
            raise SinkError(f"Kafka has no topic {', '.join(topic.topic for topic in missing)}, and `create` is false")
        if not missing:
            return
        for topic, made in admin.create_topics(missing, operation_timeout=seconds, request_timeout=seconds).items():
            try:
                made.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            _log.info("topic_created", sink=self._name, topic=topic)

    def _read_checkpoint(self) -> Checkpoint | None:
        """The last committed record of the checkpoint topic: near its end, since the topic has one key; else further back."""
        consumer = Consumer(
            {
                "group.id": f"icecore-{self._name}",  # The client requires a group; nothing is committed to it.
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **self._configuration,
            }
        )
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._checkpoint_topic, 0), timeout=self._settings.timeout_seconds)
            records = _TAIL_RECORDS
            while high > low:
                start = max(low, high - records)
                found = self._last_record(consumer, start)
                if found is not None or start == low:
                    return found
                records *= 8
            return None
        finally:
            consumer.close()

    def _last_record(self, consumer: Consumer, start: int) -> Checkpoint | None:
        consumer.assign([TopicPartition(self._checkpoint_topic, 0, start)])
        found: Checkpoint | None = None
        deadline = time.monotonic() + self._settings.timeout_seconds
        while time.monotonic() < deadline and not self._closed.is_set():
            message = consumer.poll(_STEP_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return found
                raise KafkaException(error)
            if message.key() == self._name.encode():
                value = orjson.loads(message.value() or b"")
                found = Checkpoint(value["position"], UUID(value["event-id"]) if value["event-id"] else None)
        raise SinkError("Kafka did not return the sink's position in time")

    def _close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _checkpoint_value(checkpoint: Checkpoint) -> bytes:
    return orjson.dumps({"position": checkpoint.position, "event-id": checkpoint.event_id})


def complaint_of(error: KafkaError) -> str:
    """What an error that a client reported says about the connection; empty if it only says that no broker responds."""
    return "" if error.code() == KafkaError._ALL_BROKERS_DOWN else _described(error)


def connection_failure(error: KafkaError, complaint: str, settings: KafkaSink, properties: Mapping[str, Any]) -> str:
    """A failed call in words, without values of properties. complaint -- the last error that the client reported; may be empty."""
    # After a lost connection, the complaint has the reason.
    general = [] if complaint and error.code() == KafkaError._TRANSPORT else [_described(error)]
    parts = list(dict.fromkeys([*general, *filter(None, [complaint])]))
    named = [name for name in properties if f'"{name}"' in error.str()]
    if named:
        parts.append(f"see the property {', '.join(named)}")
    where = ", ".join(filter(None, map(address_of, settings.url)))
    return f"Kafka is unreachable or refuses the connection: {'; '.join(parts)}" + (f" at {where}" if where else "")


def _described(error: KafkaError) -> str:
    """Known phrases of the error's text, else librdkafka's description of its code; the rest may come from a broker."""
    return known_phrases(error.str()) or KafkaError(error.code()).str().partition(": ")[2]


def client_properties(name: str, settings: KafkaSink) -> dict[str, Any]:
    """librdkafka's properties for every client of the sink; the operator's own come last.

    Raises SinkError for a file that cannot be read.
    """
    for setting in ("tls_ca_file", "tls_certificate_file", "tls_key_file"):
        require_file(setting, getattr(settings, setting))
    password = settings.password.get_secret_value() if settings.password else None
    if settings.password_file:
        password = read_secret("password_file", settings.password_file).strip()
    given: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.url),
        "client.id": f"icecore-{name}",
        "socket.timeout.ms": max(1_000, int(settings.timeout_seconds * 1_000)),
        "log_level": 2,  # Errors are reported by exceptions and callbacks.
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": settings.user,
        "sasl.password": password,
        "ssl.ca.location": settings.tls_ca_file and str(settings.tls_ca_file),
        "ssl.certificate.location": settings.tls_certificate_file and str(settings.tls_certificate_file),
        "ssl.key.location": settings.tls_key_file and str(settings.tls_key_file),
    }
    secure = settings.tls or settings.tls_ca_file is not None
    given["security.protocol"] = ("SASL_" if settings.sasl_mechanism else "") + ("SSL" if secure else "PLAINTEXT")
    own = {name: value for name, value in given.items() if value is not None}
    return own | (_properties(read_secret("config_file", settings.config_file)) if settings.config_file else {}) | settings.config


def _producer_properties(name: str, settings: KafkaSink) -> dict[str, Any]:
    """Additional properties of the producer; the operator's own override them."""
    return {
        "transactional.id": settings.transactional_id or f"icecore-{settings.topic}-{name}",
        "transaction.timeout.ms": max(1_000, int(settings.timeout_seconds * 1_000)),
        "partitioner": "murmur2_random",  # The partitioner of the Java client, so that other producers put a key into the same partition.
        "message.max.bytes": settings.event_bytes_max + _MESSAGE_ROOM_BYTES,
    }


def _properties(text: str) -> dict[str, str]:
    """Parses lines `name=value`, as Kafka's own clients do; `#` begins a comment."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {name.strip(): value.strip() for name, _, value in pairs}
