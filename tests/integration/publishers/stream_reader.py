"""A consumer in a separate process: it rebuilds the list of tables and their metadata locations from a stream alone.

`python -m tests.integration.publishers.stream_reader WAREHOUSE nats URL` or `WAREHOUSE kafka URL TOPIC`; prints one JSON object: dotted
name to location, of that warehouse's tables. It uses only CloudEvents and the published schemas.
"""

import asyncio
import json
import subprocess
import sys
from typing import Any

import nats
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.servers.paths import ROOT


def fold(tables: dict[str, tuple[str, str]], event: dict[str, Any], warehouse: str) -> None:
    """By table id: its name and metadata location."""
    noun, verb = event["type"].split(".")[2:4]
    if noun != "table":
        return
    table = event["data"]["table"]
    if table["warehouse"]["name"] != warehouse:
        return
    if verb in ("dropped", "unregistered", "purged"):
        tables.pop(table["id"], None)
    else:
        tables[table["id"]] = (".".join([*table["namespace"]["name"], table["name"]]), event["data"]["metadata-location"])


async def from_nats(url: str) -> list[dict[str, Any]]:
    client = await nats.connect(url)
    stream = client.jetstream()
    count = (await stream.stream_info("ICECORE")).state.messages
    subscription = await stream.pull_subscribe("icecore.>", stream="ICECORE")
    events: list[dict[str, Any]] = []
    while len(events) < count:
        for message in await subscription.fetch(100, timeout=10):
            events.append(json.loads(message.data))
            await message.ack()
    await client.close()
    return events


def from_kafka(url: str, topic: str) -> list[dict[str, Any]]:
    consumer = Consumer(
        {"bootstrap.servers": url, "group.id": "rebuild", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    events: list[dict[str, Any]] = []
    while True:
        message = consumer.poll(10)
        if message is None:
            raise TimeoutError(topic)
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return events
            raise RuntimeError(error.str())
        events.append(json.loads(message.value() or b""))


def rebuilt(*arguments: str) -> dict[str, str]:
    """The result of a separate process."""
    command = [sys.executable, "-m", "tests.integration.publishers.stream_reader", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    tables: dict[str, str] = json.loads(done.stdout)
    return tables


def main() -> None:
    warehouse, kind, url, *rest = sys.argv[1:]
    events = asyncio.run(from_nats(url)) if kind == "nats" else from_kafka(url, *rest)
    tables: dict[str, tuple[str, str]] = {}
    for event in events:
        fold(tables, event, warehouse)
    print(json.dumps(dict(sorted(tables.values()))))


if __name__ == "__main__":
    main()
