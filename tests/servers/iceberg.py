"""Iceberg's own REST server, a correct peer: a test that fails against it has a faulty set-up."""

import contextlib
import functools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.servers.java import JavaServer, java_server
from tests.servers.maven import class_path
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, listens, until_ended

POM = ROOT / "tests" / "conformance" / "rck" / "pom.xml"
LAUNCHER = ROOT / "tests" / "conformance" / "reference" / "ReferenceServer.java"


@contextlib.contextmanager
def iceberg_server(
    directory: Path, *, port: int | None = None, warehouse: str | None = None, properties: tuple[str, ...] = ()
) -> Iterator[JavaServer]:
    """Iceberg 1.11.0's RESTCatalogAdapter over a JdbcCatalog, on SQLite in `directory` unless `properties` has another database.

    warehouse -- a URI; default: a folder of `directory`. properties -- catalog properties as `key=value`; the last of a key counts.
    """
    port = port or free_port()
    directory.mkdir(parents=True, exist_ok=True)
    where = warehouse or (directory / "warehouse").as_uri()
    database = f"uri=jdbc:sqlite:file:{directory / 'catalog.db'}"
    options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path(POM, profile="reference")]
    command = [*options, str(LAUNCHER), str(port), where, database, *properties]
    ready = functools.partial(listens, port)
    with java_server(command, uri=f"http://127.0.0.1:{port}", log=directory / "reference.log", ready=ready) as server:
        yield server


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as scratch,
        iceberg_server(Path(scratch), port=int(sys.argv[1]) if len(sys.argv) > 1 else None) as server,
    ):
        print(server.uri, flush=True)
        until_ended()
