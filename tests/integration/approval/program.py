"""`icecore serve` as a process on the test's database, with hooks from its environment."""

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fixtures.catalog import SECRET_KEY
from tests.servers.icecore import START_SECONDS_MAX, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running

CONTRACT = {"ICECORE_HOOKS__CONTRACT__TYPE": "plugin", "ICECORE_HOOKS__CONTRACT__PLUGIN": "schema-contract"}


@contextmanager
def serving(dsn: str, log: Path, *, workers: int = 1, port: int | None = None, **environment: str) -> Iterator[tuple[str, int]]:
    """Yields its URL and process id. The test checks whether it ended by itself."""
    port = port or free_port()
    command = [sys.executable, "-m", "icecore", "serve", "--port", str(port), "--workers", str(workers)]
    given = clean_environment() | {"ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": SECRET_KEY} | environment
    url = f"http://127.0.0.1:{port}"
    ready = functools.partial(responds, f"{url}/health")
    with running(command, log=log, ready=ready, seconds_max=START_SECONDS_MAX, environment=given, directory=ROOT) as process:
        yield url, process.pid
