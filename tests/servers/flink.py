"""Flink from Maven Central: the SQL gateway, which runs each job in its own process, SQL over HTTP."""

import contextlib
import functools
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.java import java_environment, java_home
from tests.servers.maven import class_path, jar
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running
from tests.servers.spark import AWS_BUNDLE, spark_4_1

POM = ROOT / "tests" / "servers" / "flink.pom.xml"
START_SECONDS_MAX = 120.0
REQUEST_SECONDS_MAX = 120
POLL_SECONDS = 0.05

# The AWS SDK keeps a thread with the class loader of the first job, which Flink closes.
CONFIGURATION = """\
classloader.check-leaked-classloader: false
execution.target: local
execution.runtime-mode: batch
parallelism.default: 1
table.dml-sync: true
"""
OPENED = ("java.lang", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent")
"""The packages of Java that Flink's own start scripts open to reflection."""


class StatementRefusedError(Exception):
    """Flink refused a statement, or its job failed; the message is that of Flink, with its causes."""


@dataclass(frozen=True)
class Flink:
    """A session of a running gateway."""

    session: str

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of one statement; none if it returns only that it succeeded. Raises StatementRefusedError."""
        operation = _request(f"{self.session}/statements", {"statement": statement})["operationHandle"]
        result = f"{self.session}/operations/{operation}/result"
        rows: list[list[Any]] = []
        token = 0
        while True:
            answer = _request(f"{result}/{token}?rowFormat=JSON")
            if answer["resultType"] == "NOT_READY":
                time.sleep(POLL_SECONDS)
                continue
            # A statement that is not a query returns `OK` or the id of its job.
            if answer["resultKind"] == "SUCCESS_WITH_CONTENT" and ("jobID" not in answer or answer["isQueryResult"]):
                rows += [row["fields"] for row in answer["results"]["data"]]
            if "nextResultUri" not in answer:
                return rows
            token += 1


@contextlib.contextmanager
def flink(directory: Path) -> Iterator[Flink]:
    """Runs a gateway with one session for the length of the block. Its files are in `directory`."""
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text(CONFIGURATION)
    endpoint = {"address": "127.0.0.1", "bind-address": "127.0.0.1", "port": port}
    command = [
        java_home() / "bin" / "java",
        # Statements are few and small: a short start counts.
        *("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        f"-Djava.io.tmpdir={directory}",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", jars()),
        "org.apache.flink.table.gateway.SqlGateway",
        *(f"-Dsql-gateway.endpoint.rest.{name}={value}" for name, value in endpoint.items()),
    ]
    environment = java_environment() | {"FLINK_CONF_DIR": str(directory)}
    ready = functools.partial(responds, f"{uri}/info")
    with running(command, log=directory / "flink.log", ready=ready, seconds_max=START_SECONDS_MAX, environment=environment):
        session = _request(f"{uri}/sessions", {})["sessionHandle"]
        yield Flink(f"{uri}/sessions/{session}")


@functools.cache
def jars() -> str:
    """The class path: Flink, Iceberg's runtime and its AWS bundle, and Hadoop's client from PySpark, because Iceberg's catalog reads
    Hadoop's configuration.
    """
    packages = next((spark_4_1().python.parent.parent / "lib").glob("python3.*")) / "site-packages"
    hadoop = sorted((packages / "pyspark" / "jars").glob("hadoop-client-*.jar"))
    return os.pathsep.join([class_path(POM, profile="gateway"), str(jar(AWS_BUNDLE)), *map(str, hadoop)])


def _request(uri: str, body: dict[str, str] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(uri, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        raise StatementRefusedError(_message(json.load(refusal)["errors"][-1])) from None


def _message(stack: str) -> str:
    """The messages of an exception and its causes, without the lines of the stacks."""
    lines = (line.strip() for line in stack.splitlines())
    return "\n".join(line for line in lines if not line.startswith(("at ", "... ")))


if __name__ == "__main__":
    print(jars())
