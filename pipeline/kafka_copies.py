"""The copies of events in a topic that a Kafka sink fills, read on executors with the settings of the sink."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ..publishers.cloud_events import decode_kafka
from ..publishers.kafka import client_properties, complaint_of, connection_failure
from ..publishers.sink import SinkError
from ..publishers.sink_settings import KafkaSink
from .cloud_event_rows import READ_SCHEMA, read_row
from .event_source import SourceError
from .landed_tables import landed_events
from .log_source import divided
from .session import DataFrame, SparkSession

RANGE_MESSAGES = 20_000
"""Messages that one task reads."""
CLOCKS_MS_MAX = 3_600_000
"""How much earlier than an event was recorded its message may be dated, by the clock of the worker."""
_STEP_SECONDS = 0.5

_Range = tuple[int, int, int]
"""A partition, the first offset, and the offset after the last."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how it is read. properties -- of librdkafka, with secrets."""

    name: str
    settings: KafkaSink
    properties: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, sink: str, settings: KafkaSink) -> "Topic":
        """The topic of a sink. Raises SourceError for a file of the settings that cannot be read."""
        reading = {
            "group.id": f"icecore-{sink}-pipeline",  # The client requires a group; nothing is committed to it.
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        try:
            return cls(settings.topic, settings, reading | client_properties(sink, settings))
        except SinkError as error:
            raise SourceError(str(error)) from None


class TopicReader:
    """A connection to the brokers. Its calls raise SourceError."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._seconds = topic.settings.timeout_seconds
        self._complaint = ""
        try:
            self._consumer = Consumer({**topic.properties, "error_cb": self._note}, logger=None)
        except KafkaException as error:
            raise self._failed(error.args[0]) from None

    def close(self) -> None:
        self._consumer.close()

    def offsets(self) -> dict[int, tuple[int, int]]:
        """The first offset of each partition, and the one after its last committed message."""
        name = self._topic.name
        try:
            found = self._consumer.list_topics(name, timeout=self._seconds).topics[name]
            if found.error is not None:
                raise SourceError(f"Kafka has no topic {name}, or does not show it")
            return {number: self._watermarks(number) for number in sorted(found.partitions)}
        except KafkaException as error:
            # The error callback is called.
            self._consumer.poll(0)
            raise self._failed(error.args[0]) from None

    def _watermarks(self, partition: int) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic.name, partition), timeout=self._seconds)
        return low, high

    def offsets_at(self, partitions: Iterable[int], time_ms: int) -> dict[int, int | None]:
        """The offset of each partition's first message that is not dated earlier; None if all are."""
        wanted = [TopicPartition(self._topic.name, number, time_ms) for number in partitions]
        try:
            found = self._consumer.offsets_for_times(wanted, timeout=self._seconds)
        except KafkaException as error:
            raise self._failed(error.args[0]) from None
        return {each.partition: each.offset if each.offset >= 0 else None for each in found}

    def messages(self, partition: int, start: int, end: int) -> Iterator[Message]:
        """The messages of a partition from an offset up to one before `end`, without those of aborted transactions."""
        self._consumer.assign([TopicPartition(self._topic.name, partition, start)])
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            message = self._consumer.poll(_STEP_SECONDS)
            if message is None:
                continue
            error, offset = message.error(), message.offset()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise self._failed(error)
            if error is not None or offset is None or offset >= end:
                return
            yield message
            if offset == end - 1:
                return
            deadline = time.monotonic() + self._seconds
        raise self._failed(KafkaError(KafkaError._TIMED_OUT))

    def _note(self, error: KafkaError) -> None:
        self._complaint = complaint_of(error) or self._complaint

    def _failed(self, error: KafkaError) -> SourceError:
        return SourceError(connection_failure(error, self._complaint, self._topic.settings, self._topic.properties))


class KafkaCopies:
    """EventCopies of a topic.

    What is read begins with the first event that is not landed. At the start of a job it is found by its time, and the topic is read from
    its beginning if that was too late.
    """

    gap_seconds_max: ClassVar[float] = 10.0
    """The partitions of one transaction do not show it at the same moment."""
    gap_advice: ClassVar[str] = (
        "A sink that started later, an event that was skipped and the retention of the topic leave such gaps."
        " Land the log up to there from Postgres, or publish the event again with icecore sinks replay"
    )

    def __init__(self, spark: SparkSession, topic: Topic, pipeline_warehouse_id: UUID) -> None:
        self._spark = spark
        self._topic = topic
        self._pipeline_warehouse = str(pipeline_warehouse_id)
        self._reader = TopicReader(topic)
        self._read_to: dict[int, int] | None = None
        self._began_by_time: bool | None = None
        self.name = f"The topic {topic.name}"

    def close(self) -> None:
        self._reader.close()

    def read(self, after: int, pending: DataFrame | None) -> DataFrame | None:
        offsets = self._reader.offsets()
        ends = {number: end for number, (_, end) in offsets.items()}
        if ends == self._read_to:
            return None
        starts = self._starts(after, pending, offsets)
        self._read_to = ends
        ranges = [(number, *each) for number, end in ends.items() for each in divided(starts[number], end, RANGE_MESSAGES)]
        if not ranges:
            return None
        read = partial(_read, topic=self._topic, after=after, pipeline_warehouse=self._pipeline_warehouse)
        rows = self._spark.sparkContext.parallelize(ranges, len(ranges)).mapPartitions(read)
        return self._spark.createDataFrame(rows, READ_SCHEMA, verifySchema=False)

    def _starts(self, after: int, pending: DataFrame | None, offsets: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        lows = {number: low for number, (low, _) in offsets.items()}
        if self._read_to is not None:
            left = {} if pending is None else _left(pending, after)
            return {number: max(low, left.get(number, self._read_to.get(number, low))) for number, low in lows.items()}
        found = self._offsets_by_time(after, lows) if self._began_by_time is None else {}
        # If no message is dated so late, the topic is far behind, or the clocks differ.
        self._began_by_time = any(start is not None for start in found.values())
        if not self._began_by_time:
            return lows
        return {number: end if (start := found[number]) is None else start for number, (_, end) in offsets.items()}

    def _offsets_by_time(self, after: int, partitions: Iterable[int]) -> Mapping[int, int | None]:
        """Where to begin for the events after a landed one; empty if none is landed."""
        recorded = landed_events(self._spark, after - 1, after).selectExpr("unix_millis(recorded_at) as ms").head()
        return {} if recorded is None else self._reader.offsets_at(partitions, recorded.ms - CLOCKS_MS_MAX)

    def read_from_the_beginning(self) -> bool:
        if not self._began_by_time:
            return False
        self._began_by_time, self._read_to = False, None
        return True

    def place(self, origin: str, offset: int | None) -> str:
        return f"partition {origin}, offset {offset}"


def _left(pending: DataFrame, after: int) -> dict[int, int]:
    """The offset of the first event of each partition that is not landed."""
    rows = pending.where(f"position > {after}").groupBy("origin").agg({"origin_offset": "min"}).toDF("origin", "first").collect()
    return {int(row["origin"]): row["first"] for row in rows}


def _read(ranges: Iterable[_Range], *, topic: Topic, after: int, pipeline_warehouse: str) -> Iterator[tuple[Any, ...]]:
    """The rows of the events after a position in these ranges. Raises SourceError."""
    reader = TopicReader(topic)
    try:
        for partition, start, end in ranges:
            for message in reader.messages(partition, start, end):
                row = read_row(partial(_decoded, message), after, pipeline_warehouse, str(partition), message.offset())
                if row is not None:
                    yield row
    finally:
        reader.close()


def _decoded(message: Message) -> Any:
    headers: Any = message.headers()
    return decode_kafka(dict(headers or ()), message.value() or b"")
