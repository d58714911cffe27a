"""Secured brokers: passwords, tokens, TLS, mutual TLS and SCRAM, and operators' error messages for wrong settings."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from icecore.publishers.jetstream import JetStream
from icecore.publishers.sink import SinkError, SinkPosition
from icecore.publishers.sink_settings import NatsSink
from icecore.settings import load_settings
from icecore.sinks import run_publishers
from tests.fixtures.operator_commands import icecore_with
from tests.integration.publishers.publishing import (
    FAULTLESS,
    SINK,
    KafkaUnderTest,
    NatsUnderTest,
    Received,
    judge,
    row,
    until,
    until_published,
)
from tests.servers.certificates import Authority
from tests.servers.kafka import kafka_broker
from tests.servers.nats import nats_server

_PASSWORD, _WRONG_PASSWORD = "the-right-one", "another-one"
_KAFKA = """\
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.mutual.ssl.client.auth=required
"""


class Reads(Protocol):
    async def read(self) -> list[Received]: ...


@dataclass(frozen=True)
class Secured:
    """A broker, its sink in the settings file, and wrong changes with the expected message."""

    broker: Reads
    sink: dict[str, str]
    wrong: list[tuple[dict[str, str], str]]


@contextmanager
def secured_nats(directory: Path) -> Iterator[Secured]:
    """TLS with a private authority, a user and a password."""
    ours, strangers = Authority(directory, "ours"), Authority(directory, "strangers")
    server = ours.issue("nats")
    configuration = f"""
        tls {{ cert_file: "{server.certificate}", key_file: "{server.key}" }}
        authorization {{ user: icecore, password: {_PASSWORD} }}
    """
    with nats_server(directory / "nats", configuration=configuration) as started:
        url = started.url.replace("nats://", "tls://")
        reading = {"tls": ssl.create_default_context(cafile=ours.file), "user": "icecore", "password": _PASSWORD}
        sink = {"type": "nats", "url": url, "user": "icecore", "password": _PASSWORD, "tls_ca_file": str(ours.file)}
        wrong = [({"password": _WRONG_PASSWORD}, "authorization"), ({"tls_ca_file": str(strangers.file)}, "certificate verify failed")]
        yield Secured(NatsUnderTest(started, reading=reading), sink, wrong)


@contextmanager
def secured_kafka(directory: Path, listener: str) -> Iterator[Secured]:
    """One broker with SCRAM over TLS, or with client certificates (MUTUAL). The test's consumers use another listener."""
    ours, strangers = Authority(directory, "ours"), Authority(directory, "strangers")
    configuration = _KAFKA.format(certificate=ours.issue("kafka").both, authority=ours.file)
    listeners = {"SCRAM": "SASL_SSL", "MUTUAL": "SSL"}
    with kafka_broker(directory / "kafka", listeners=listeners, configuration=configuration) as started:
        broker = KafkaUnderTest(started)
        sink = {"type": "kafka", "url": started.url_of(listener), "topic": broker.topic, "tls_ca_file": str(ours.file)}
        untrusted = ({"tls_ca_file": str(strangers.file)}, "certificate verify failed")
        if listener == "SCRAM":
            _set_password(started.url)
            by_password = {"sasl_mechanism": "SCRAM-SHA-512", "user": "icecore", "password": _PASSWORD}
            yield Secured(broker, sink | by_password, [({"password": _WRONG_PASSWORD}, "authentication failed"), untrusted])
        else:
            mine, strange = ours.issue("icecore"), strangers.issue("icecore")
            by_certificate = {"tls_certificate_file": str(mine.certificate), "tls_key_file": str(mine.key)}
            stranger = {"tls_certificate_file": str(strange.certificate), "tls_key_file": str(strange.key)}
            # librdkafka sends none if the broker requests other authorities. Java has a different message since 17.0.21.
            yield Secured(broker, sink | by_certificate, [(stranger, "alert (bad certificate|certificate required)"), untrusted])


def _set_password(url: str) -> None:
    admin = AdminClient({"bootstrap.servers": url})
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for altered in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("icecore", kind, _PASSWORD.encode())]).values():
        altered.result()


@pytest.fixture(params=["nats", "kafka-scram", "kafka-mutual"])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    kind, _, listener = str(request.param).partition("-")
    with secured_nats(tmp_path) if kind == "nats" else secured_kafka(tmp_path, listener.upper()) as opened:
        yield opened


def written(directory: Path, database: str, sink: dict[str, str]) -> Path:
    """The settings file of a user."""
    file = directory / "icecore.toml"
    lines = [f'database_url = "{database}"', f"[sinks.{SINK}]", *(f'{name} = "{value}"' for name, value in sink.items())]
    file.write_text("\n".join([*lines, "timeout_seconds = 3\n"]))
    return file


@asynccontextmanager
async def publishing(file: Path) -> AsyncIterator[None]:
    """A publisher in this process with the settings of the file."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_publishers(load_settings(file), stop))
    try:
        yield
    finally:
        stop.set()
        await task


def shown(file: Path) -> "CompletedProcess[str]":
    """`icecore sinks --json`. In a thread, because the publishers run in the loop of the test."""
    return icecore_with({"ICECORE_CONFIG": str(file)}, "sinks", "--json")


async def test_a_secured_broker_gets_every_event_despite_wrong_credentials_before(
    database: str, log: list[str], secured: Secured, tmp_path: Path
) -> None:
    """With a wrong password or certificate the operator sees the reason. With the correct one all events are published."""
    for change, said in secured.wrong:
        file = written(tmp_path, database, secured.sink | change)
        async with publishing(file):

            async def is_reported(expected: str = said) -> bool:
                state = await row(database, "last_error, position")
                return state is not None and re.search(expected, state[0] or "", re.IGNORECASE) is not None and state[1] == 0

            await until(is_reported, what=f"{said!r} is reported")
            operators = await asyncio.to_thread(shown, file)
        assert 1 == operators.returncode
        assert re.search(said, json.loads(operators.stdout)[0]["last-error"], re.IGNORECASE)
        assert _WRONG_PASSWORD not in operators.stdout + operators.stderr
    file = written(tmp_path, database, secured.sink)
    async with publishing(file):
        await until_published(database)
        operators = await asyncio.to_thread(shown, file)
        assert (0, []) == (operators.returncode, json.loads(operators.stdout)[0]["problems"])
    assert FAULTLESS == judge(log, await secured.broker.read())


async def opened(url: str, **settings: Any) -> SinkPosition:
    """The error of opening the sink."""
    sink = JetStream("s", NatsSink(type="nats", url=url, timeout_seconds=3, **settings), "")  # type: ignore[arg-type]
    try:
        return await sink.open()
    finally:
        await sink.close()


async def test_a_token(tmp_path: Path) -> None:
    """The correct one is accepted. The wrong one is refused without being shown."""
    with nats_server(tmp_path, configuration="authorization { token: s3cret }") as started:
        assert SinkPosition(None, 0) == await opened(started.url, token="s3cret")
        with pytest.raises(SinkError, match=r"(?i)authorization") as refused:
            await opened(started.url, token="x")
        assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("sink", "missing"),
    [
        ({"type": "nats", "url": "nats://127.0.0.1:9", "credentials_file": "no.creds"}, "credentials_file"),
        ({"type": "kafka", "url": "127.0.0.1:9", "tls_ca_file": "no.pem"}, "tls_ca_file"),
        ({"type": "kafka", "url": "127.0.0.1:9", "password_file": "no.password"}, "password_file"),
        ({"type": "webhook", "url": "http://127.0.0.1:9", "secret_file": "no.secret"}, "secret_file"),
    ],
)
async def test_a_file_that_is_not_there_is_named(database: str, tmp_path: Path, sink: dict[str, str], missing: str) -> None:
    """The message names the setting, not its value. The publisher retries."""
    paths = {name: str(tmp_path / value) if name.endswith("_file") else value for name, value in sink.items()}
    async with publishing(written(tmp_path, database, paths)):

        async def is_reported() -> bool:
            state = await row(database, "last_error")
            return state is not None and missing in (state[0] or "")

        await until(is_reported, what=f"{missing} is named")
        assert "no." not in str(await row(database, "last_error"))
