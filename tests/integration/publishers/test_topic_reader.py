"""Reading a topic in ranges of offsets, as a landing does: real Kafka, without Spark."""

import pickle
import secrets
from typing import Any

import pytest
from confluent_kafka import Producer

from icecore.pipeline.event_source import SourceError
from icecore.pipeline.kafka_copies import Topic, TopicReader
from icecore.pipeline.log_source import divided
from icecore.publishers.sink_settings import KafkaSink
from tests.acceptance.event_topics import make_topic
from tests.servers.kafka import KafkaBroker


def topic_of(url: str, name: str, **settings: Any) -> Topic:
    # As tasks get it.
    topic: Topic = pickle.loads(pickle.dumps(Topic.of("s", KafkaSink(type="kafka", url=url, topic=name, timeout_seconds=3, **settings))))
    return topic


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:
    """Two partitions: the first has transactions of three messages, every other one aborted; the other is empty."""
    name = f"t{secrets.token_hex(4)}"
    make_topic(kafka.url, name, 2)
    producer = Producer({"bootstrap.servers": kafka.url, "transactional.id": name})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(name, f"{number}.{each}", partition=0)
        producer.flush()
        (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    return topic_of(kafka.url, name)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_committed_messages_are_read_once_in_ranges_of_any_size(topic: Topic, size: int) -> None:
    """Markers of transactions have offsets too: a range may have no message."""
    reader = TopicReader(topic)
    offsets = reader.offsets()
    assert {0: (0, 24), 1: (0, 0)} == offsets
    found = [message.value() for start, end in divided(0, 24, size) for message in reader.messages(0, start, end)]
    assert [f"{number}.{each}".encode() for number in (0, 2, 4) for each in range(3)] == found
    reader.close()


def test_offsets_are_found_by_time(topic: Topic) -> None:
    reader = TopicReader(topic)
    assert {0: 0, 1: None} == reader.offsets_at((0, 1), 1)
    assert {0: None, 1: None} == reader.offsets_at((0, 1), 4_000_000_000_000)
    reader.close()


def test_messages_that_the_topic_lost_are_an_error(topic: Topic) -> None:
    """A range that is read again, after the retention of the topic, must not be shorter without notice."""
    reader = TopicReader(topic)
    with pytest.raises(SourceError, match=r"^Kafka is unreachable or refuses the connection: "):
        list(reader.messages(0, 1_000, 2_000))
    reader.close()


def test_a_password_is_in_no_message() -> None:
    topic = topic_of("127.0.0.1:9", "t", user="u", password="hunter2", sasl_mechanism="PLAIN")
    assert "hunter2" not in repr(topic)
    reader = TopicReader(topic)
    with pytest.raises(SourceError, match="unreachable") as refused:
        reader.offsets()
    assert "hunter2" not in str(refused.value)
    reader.close()


def test_a_file_of_the_settings_that_is_missing_is_named_by_its_setting() -> None:
    with pytest.raises(SourceError, match=r"^the file of the setting tls_ca_file cannot be read: No such file or directory$"):
        topic_of("127.0.0.1:9", "t", tls_ca_file="/hunter2")
