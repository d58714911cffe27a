"""Measures how long `icecore serve` takes to its first response, with and without the embedded Postgres: `python -m
benchmarks.embedded_start`.

The time is from the start of the process until `GET /catalog/v1/config` is answered: on a new data folder, on an existing one, and on a
migrated database of a running server. Also measured are the time from SIGTERM to the end, and from SIGKILL of the embedded server until a
request that needs it is answered. Results are medians with the shortest and the longest round.
"""

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import uvloop

from icecore.embedded_postgres import embedded_postgres
from icecore.migrations.apply import apply_migrations
from tests.servers.processes import free_port

START_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.005
_SECRET_KEY = "YmVuY2htYXJrcyBvbmx5LCB0aGlydHktdHdvIGJ5dGU="


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=10)
    rounds = options.parse_args().rounds
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="icecore-start-") as directory:
            Path(directory).chmod(0o755)
            _round(Path(directory), seconds)
    for what, measured in seconds.items():
        print(f"{what}: {statistics.median(measured):.2f} s ({min(measured):.2f} to {max(measured):.2f})")
    print(f"load average {os.getloadavg()[0]:.1f}")


def _round(directory: Path, seconds: Mapping[str, list[float]]) -> None:
    data = directory / "data"
    with _served("--data", str(data)) as (_, first):
        seconds["first response, fresh data folder"].append(first)
    with _served("--data", str(data)) as (uri, first):
        seconds["first response, existing data folder"].append(first)
        postmaster = _postmaster(data)
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        died = time.monotonic()
        # The server's child processes continue to respond for a moment. A name that is not cached is looked up in Postgres.
        _until(lambda: _postmaster(data) not in (None, postmaster))
        _until(lambda: _status(f"{uri}/v1/config?warehouse=none-{time.monotonic_ns()}") == 404)
        seconds["responses again after the server was killed"].append(time.monotonic() - died)
    with _served("--data", str(data)) as _:
        stopping = time.monotonic()
    seconds["stop"].append(time.monotonic() - stopping)
    shutil.rmtree(data)
    with embedded_postgres(directory / "own") as dsn:
        uvloop.run(apply_migrations(dsn))
        with _served(environment={"ICECORE_DATABASE_URL": dsn, "ICECORE_SECRET_KEY": _SECRET_KEY}) as (_, first):
            seconds["first response, a server that runs"].append(first)


@contextlib.contextmanager
def _served(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[str, float]]:
    """The catalog's address, and the time to its first response."""
    port = free_port()
    command = [sys.executable, "-m", "icecore", "serve", "--port", str(port), *arguments]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    try:
        uri = f"http://127.0.0.1:{port}/catalog"
        _until(lambda: process.poll() is not None or _status(f"{uri}/v1/config?warehouse=demo") is not None)
        if process.returncode is not None:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        yield uri, time.monotonic() - began
    finally:
        process.terminate()
        process.wait()


def _postmaster(data: Path) -> int | None:
    """The process of the embedded server; None if there is none."""
    try:
        return int((data / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_POLL_SECONDS)


def _status(uri: str) -> int | None:
    """The status of a GET; None without a response."""
    try:
        with urllib.request.urlopen(uri, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None


if __name__ == "__main__":
    main()
