"""Iceberg's own REST server, the known-good peer: what fails against it is a fault of the test's set-up, not of ours."""

import contextlib
import functools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.servers.java import java_environment, java_home
from tests.servers.maven import class_path
from tests.servers.places import ROOT
from tests.servers.processes import free_port, listens, running, until_ended

POM = ROOT / "tests" / "conformance" / "rck" / "pom.xml"
LAUNCHER = ROOT / "tests" / "conformance" / "reference" / "ReferenceServer.java"
SECONDS_MAX = 60.0


@contextlib.contextmanager
def iceberg_server(
    directory: Path, *, port: int | None = None, warehouse: str | None = None, properties: tuple[str, ...] = ()
) -> Iterator[str]:
    """Iceberg 1.11.0's RESTCatalogAdapter over a JdbcCatalog on SQLite in `directory`; yields its base address.

    warehouse -- a URI; a folder of `directory` when not given. properties -- catalog properties as `key=value`.
    """
    port = port or free_port()
    directory.mkdir(parents=True, exist_ok=True)
    where = warehouse or (directory / "warehouse").as_uri()
    database = f"uri=jdbc:sqlite:file:{directory / 'catalog.db'}"
    java: list[str | Path] = [
        java_home() / "bin" / "java",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        class_path(POM, profile="reference"),
    ]
    command: list[str | Path] = [*java, LAUNCHER, str(port), where, database, *properties]
    with running(
        command,
        log=directory / "reference.log",
        ready=functools.partial(listens, port),
        seconds_max=SECONDS_MAX,
        environment=java_environment(),
    ):
        yield f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as scratch,
        iceberg_server(Path(scratch), port=int(sys.argv[1]) if len(sys.argv) > 1 else None) as uri,
    ):
        print(uri, flush=True)
        until_ended()
