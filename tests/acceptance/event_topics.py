"""Topics with copies of another topic's messages, as a producer without transactions leaves them."""

from collections.abc import Iterator

import orjson
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def messages(url: str, topic: str) -> list[Message]:
    """All committed messages of a topic, one partition after the other."""
    properties = {"bootstrap.servers": url, "group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**properties, "auto.offset.reset": "error"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        return [message for number in partitions for message in _of_partition(consumer, TopicPartition(topic, number, 0))]
    finally:
        consumer.close()


def _of_partition(consumer: Consumer, partition: TopicPartition) -> Iterator[Message]:
    consumer.assign([partition])
    while True:
        message = consumer.poll(10)
        assert message is not None, "the partition was not read to its end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return
        yield message


def position_of(message: Message) -> int:
    return int(orjson.loads(message.value() or b"")["position"])


def publish_again(url: str, topic: str, partition: int, published: list[Message], *, time_ms: int = 0) -> None:
    """Appends these messages to one partition, in this order. time_ms -- their date; 0: now."""
    producer = Producer({"bootstrap.servers": url})
    for message in published:
        producer.produce(topic, message.value(), message.key(), partition, timestamp=time_ms, headers=message.headers())
    assert 0 == producer.flush(10)


def make_topic(url: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": url})
    (made,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    made.result()
