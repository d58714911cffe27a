"""Kafka's properties: from the settings, then a properties file, then single properties; later ones take precedence."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from icecore.publishers.kafka import Kafka, _producer_properties, client_properties
from icecore.publishers.sink import SinkError
from icecore.publishers.sink_settings import KafkaSink


def configured(**settings: Any) -> dict[str, Any]:
    return client_properties("s", KafkaSink(type="kafka", url="a:1,b:2", **settings))  # type: ignore[arg-type]


def test_plain_by_default() -> None:
    """No security properties without settings."""
    properties = configured()
    assert ("a:1,b:2", "PLAINTEXT") == (properties["bootstrap.servers"], properties["security.protocol"])
    assert [] == [name for name in properties if name.startswith(("sasl", "ssl"))]


def test_sasl_over_tls(tmp_path: Path) -> None:
    """The password may be in a file with a line end."""
    secret, authority = tmp_path / "password", tmp_path / "ca.pem"
    secret.write_text("p4ss\n")
    authority.touch()
    properties = configured(tls_ca_file=authority, sasl_mechanism="SCRAM-SHA-512", user="ice", password_file=secret)
    assert {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ice", "sasl.password": "p4ss",
        "ssl.ca.location": str(authority),
    } == {name: properties[name] for name in properties if name.startswith(("security", "sasl", "ssl"))}  # fmt: skip


def test_a_file_of_properties_and_single_ones_over_it(tmp_path: Path) -> None:
    """Comments and spaces as in client.properties. Single properties take precedence."""
    file = tmp_path / "client.properties"
    file.write_text("# ours\nsecurity.protocol = SASL_SSL\nsasl.oauthbearer.config=scope=a b\n\n! old\nlinger.ms=7\n")
    properties = configured(config_file=file, config={"linger.ms": "9"})
    assert ("SASL_SSL", "scope=a b", "9") == tuple(
        properties[name] for name in ("security.protocol", "sasl.oauthbearer.config", "linger.ms")
    )


def test_a_transaction_has_the_time_of_a_response_and_room_for_the_largest_event() -> None:
    """In milliseconds, at least a second. `message.max.bytes` includes Kafka's overhead."""
    short, long = (
        _producer_properties("s", KafkaSink(type="kafka", url="a:1", timeout_seconds=seconds, event_bytes_max=5_000))  # type: ignore[arg-type]
        for seconds in (0.5, 12.5)
    )
    assert (1_000, 12_500) == (short["transaction.timeout.ms"], long["transaction.timeout.ms"])
    assert 5_000 < long["message.max.bytes"] < 100_000


async def test_a_sink_is_closed_in_time_while_the_client_waits_for_brokers(unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka cannot be interrupted, so its thread is abandoned."""
    monkeypatch.setattr("icecore.publishers.kafka._CLOSE_SECONDS_MAX", 0.1)
    sink = Kafka("s", KafkaSink(type="kafka", url=f"127.0.0.1:{unused_tcp_port}", timeout_seconds=3.0), "")  # type: ignore[arg-type]
    opening = asyncio.create_task(sink.open())
    await asyncio.sleep(0.1)
    await sink.close()
    await asyncio.sleep(0.1)  # The end of the thread is known a turn of the loop later.
    assert not opening.done()
    with pytest.raises(SinkError, match="Kafka is unreachable"):
        await opening


async def test_brokers_that_refuse_are_described_once_in_words(unused_tcp_port: int) -> None:
    """Without librdkafka's names of errors."""
    sink = Kafka("s", KafkaSink(type="kafka", url=f"127.0.0.1:{unused_tcp_port}", timeout_seconds=1.0), "")  # type: ignore[arg-type]
    with pytest.raises(SinkError) as refused:
        await sink.open()
    await sink.close()
    address = f"127.0.0.1:{unused_tcp_port}"
    assert f"Kafka is unreachable or refuses the connection: connection refused at {address}" == str(refused.value)
