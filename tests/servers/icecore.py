"""Our own server, started as users start it, and operators' commands on its data."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fixtures.operator_commands import icecore_with
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, log_tail, responds, running, until_ended

START_SECONDS_MAX = 60.0
PROGRAM = ROOT / ".venv" / "bin" / "icecore"


class CommandFailedError(Exception):
    """An operator's command ended with a status other than 0; the message contains its output."""


@dataclass(frozen=True)
class Icecore:
    """A running server: its URL, its data folder, its process id."""

    uri: str
    data: Path
    process_id: int
    log: Path

    @property
    def catalog_uri(self) -> str:
        """The `uri` for Iceberg clients."""
        return f"{self.uri}/catalog"

    def create_warehouse(self, name: str, profile: dict[str, Any], credential: dict[str, Any] | None = None) -> None:
        """Creates a warehouse with the command line, as an operator does."""
        options = ["--credential", json.dumps(credential)] if credential else []
        operate("warehouse", "create", name, "--profile", json.dumps(profile), *options, "--data", str(self.data))

    def position(self) -> int:
        """The position of the last event of the log."""
        events = operate("log", "--json", "--data", str(self.data)).splitlines()
        position: int = json.loads(events[-1])["position"]
        return position

    def check_against_log(self) -> None:
        """Checks that the log and the read models agree, before and after a rebuild."""
        verify_and_rebuild(self.data)


@contextlib.contextmanager
def icecore(
    data: Path,
    *,
    port: int | None = None,
    workers: int | None = None,
    environment: dict[str, str] | None = None,
    descriptors: int | None = None,
) -> Iterator[Icecore]:
    """Runs `icecore serve --data DIR --port N` with only the settings of `environment` for the length of the block. Ends it with
    SIGTERM. descriptors -- the limit on open files (`ulimit -Sn`) at its start.
    """
    port = port or free_port()
    uri = f"http://127.0.0.1:{port}"
    data.parent.mkdir(parents=True, exist_ok=True)
    log = data.with_name(f"{data.name}.log")
    command: list[str | Path] = [PROGRAM, "serve", "--data", data, "--port", str(port)]
    if workers is not None:
        command += ["--workers", str(workers)]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -Sn {descriptors} && exec "$0" "$@"', *command]
    ready = f"{uri}/health"
    with running(
        command,
        log=log,
        ready=lambda: responds(ready),
        seconds_max=START_SECONDS_MAX,
        environment=clean_environment() | (environment or {}),
    ) as process:
        yield Icecore(uri, data, process.pid, log)
    if process.returncode != 0:
        raise CommandFailedError(f"icecore serve ended with {process.returncode} after SIGTERM:\n{log_tail(log)}")


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """A new folder that every account may enter: the embedded Postgres does not run as root, and pytest's folders are closed."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def operate(*arguments: str) -> str:
    """Runs one operator's command in this process and returns its output. Raises CommandFailedError unless the status is 0."""
    done = icecore_with({}, *arguments)
    if done.returncode != 0:
        raise CommandFailedError(f"icecore {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def verify_and_rebuild(data: Path) -> None:
    """Runs `icecore verify`, `icecore rebuild` and `icecore verify` on a data folder, served or not. Raises CommandFailedError on any
    difference.
    """
    operate("verify", "--data", str(data))
    operate("rebuild", "--data", str(data))
    operate("verify", "--data", str(data))


def clean_environment() -> dict[str, str]:
    """This environment without Icecore's settings, so that the server starts as on a new machine."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}


if __name__ == "__main__":
    with open_directory() as scratch, icecore(Path(sys.argv[1]) if len(sys.argv) > 1 else scratch / "data") as server:
        print(server.catalog_uri, flush=True)
        until_ended()
