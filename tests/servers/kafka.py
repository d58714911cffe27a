"""One Kafka broker in KRaft mode, from Maven Central, on loopback; it can be stopped, killed, frozen and started again."""

import base64
import contextlib
import functools
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.servers.breakable import BreakableServer
from tests.servers.java import java_environment, java_home
from tests.servers.maven import class_path
from tests.servers.paths import ROOT
from tests.servers.processes import ServerNotReadyError, free_port, until_ended

POM = ROOT / "tests" / "servers" / "kafka.pom.xml"
START_SECONDS_MAX = 60.0

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more_listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_listeners}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{more_protocols}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
num.partitions=1
auto.create.topics.enable=false
{configuration}
"""


class KafkaBroker(BreakableServer):
    """One broker.

    listeners -- additional ones, by name, with their security protocols. configuration -- additional properties.
    """

    def __init__(self, directory: Path, *, listeners: Mapping[str, str] | None = None, configuration: str = "") -> None:
        super().__init__(directory, "data")
        self._controller = free_port()
        self._protocols = dict(listeners or {})
        self._ports = {name: free_port() for name in self._protocols}
        self._configuration = configuration

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url_of(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

    def start(self) -> None:
        """Starts it with the existing files; new ones are formatted first."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text(
            _PROPERTIES.format(
                port=self.port,
                controller=self._controller,
                data=self._stored,
                more_listeners="".join(f",{name}://{self.url_of(name)}" for name in self._protocols),
                more_protocols="".join(f",{name}:{protocol}" for name, protocol in self._protocols.items()),
                configuration=self._configuration,
            )
        )
        if not self._stored.exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # With an equals sign, because it may begin with a dash.
            command = _java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ServerNotReadyError(f"Kafka's files cannot be made ({done.returncode}):\n{done.stdout}\n{done.stderr}")
        self._launch(
            _java("kafka.Kafka", str(properties)),
            log="kafka.log",
            ready=self._responds,
            seconds_max=START_SECONDS_MAX,
            environment=java_environment(),
        )

    def _responds(self) -> bool:
        # The log of a client that cannot connect yet is not needed.
        client = AdminClient({"bootstrap.servers": self.url, "log_level": 0, "socket.connection.setup.timeout.ms": 1_000})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False


def _java(*arguments: str) -> list[str]:
    options = ["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [str(java_home() / "bin" / "java"), *options, "-cp", _class_path(), *arguments]


@functools.cache
def _class_path() -> str:
    return class_path(POM, profile="broker")


@contextlib.contextmanager
def kafka_broker(directory: Path, *, listeners: Mapping[str, str] | None = None, configuration: str = "") -> Iterator[KafkaBroker]:
    """A new broker for the length of the block."""
    broker = KafkaBroker(directory, listeners=listeners, configuration=configuration)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, kafka_broker(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)) as started:
        print(started.url, flush=True)
        until_ended()
