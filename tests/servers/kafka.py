"""One Kafka broker in KRaft mode, from Maven Central, on loopback; it can be stopped, killed, frozen and started again."""

import base64
import contextlib
import functools
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.servers.java import java_environment, java_home
from tests.servers.maven import class_path
from tests.servers.places import ROOT
from tests.servers.processes import ServerNotReadyError, free_port, running, until_ended

POM = ROOT / "tests" / "servers" / "kafka.pom.xml"
START_SECONDS_MAX = 60.0

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
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
"""


class KafkaBroker:
    """One broker on fixed ports with its files in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._controller = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._running = ExitStack()

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Starts it on the files that are there; fresh ones are formatted first."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        data = self.directory / "data"
        properties.write_text(_PROPERTIES.format(port=self.port, controller=self._controller, data=data))
        if not data.exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            command = _java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise ServerNotReadyError(f"Kafka's files cannot be made ({done.returncode}):\n{done.stdout}\n{done.stderr}")
        self._process = self._running.enter_context(
            running(
                _java("kafka.Kafka", str(properties)),
                log=self.directory / "kafka.log",
                ready=self._answers,
                seconds_max=START_SECONDS_MAX,
                environment=java_environment(),
            )
        )

    def _answers(self) -> bool:
        # The log of a client that cannot connect yet is of no interest.
        client = AdminClient({"bootstrap.servers": self.url, "log_level": 0, "socket.connection.setup.timeout.ms": 1_000})
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def stop(self) -> None:
        """Asks it to end."""
        self.thaw()
        self._running.close()
        self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._running.close()
        self._process = None

    def wipe(self) -> None:
        """Everything it stored is gone; only while it is stopped."""
        assert self._process is None
        shutil.rmtree(self.directory / "data")

    def freeze(self) -> None:
        """SIGSTOP: it neither answers nor closes a connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


def _java(*arguments: str) -> list[str]:
    options = ["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [str(java_home() / "bin" / "java"), *options, "-cp", _class_path(), *arguments]


@functools.cache
def _class_path() -> str:
    return class_path(POM, profile="broker")


@contextlib.contextmanager
def kafka_broker(directory: Path) -> Iterator[KafkaBroker]:
    """A fresh broker for the length of the block."""
    broker = KafkaBroker(directory)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, kafka_broker(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)) as started:
        print(started.url, flush=True)
        until_ended()
