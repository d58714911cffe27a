"""Starts servers on loopback, waits until they respond, and ends them by their process ids."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

# Longer than the server waits for its own Postgres to stop; killing it earlier would leave that Postgres running.
STOP_SECONDS_MAX = 150.0
POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 8_000
# Below the range of outgoing connections (from 32,768), so that a killed server's port is free when it restarts.
SERVER_PORTS = range(15_000, 32_000)


class ServerNotReadyError(Exception):
    """A server ended or did not respond; the message contains the end of its log."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now and is not used for outgoing connections."""
    while True:
        port = secrets.choice(SERVER_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    """Whether a server accepts connections on that port of 127.0.0.1."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def responds(uri: str) -> bool:
    """Whether a GET of that URL is answered with 2xx."""
    with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(uri, timeout=2):
        return True
    return False


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[], bool],
    seconds_max: float,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server in its own process group for the length of the block. Waits until it is ready; its output is in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    try:
        wait_until_ready(process, ready, seconds_max=seconds_max, log=log)
        yield process
    finally:
        stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], ready: Callable[[], bool], *, seconds_max: float, log: Path) -> None:
    """Returns once `ready()` is true. Raises ServerNotReadyError if the process ends or the time is over."""
    deadline = time.monotonic() + seconds_max
    while not ready():
        if has_ended(process):
            raise ServerNotReadyError(f"{process.args!r} ended with {stop(process)}:\n{log_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerNotReadyError(f"{process.args!r} was not ready within {seconds_max} s:\n{log_tail(log)}")
        time.sleep(POLL_SECONDS)


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str], *, seconds_max: float = STOP_SECONDS_MAX) -> int:
    """Ends a process in its own group: SIGTERM first, then SIGKILL for the whole group. Returns the exit status."""
    if process.returncode is not None:
        # Its id, and that of its group, may belong to another process by now.
        return process.returncode
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds_max
    while not has_ended(process) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def has_ended(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> bool:
    """Whether the process has ended. It is not reaped, so that its id and its group's are not reused."""
    return process.returncode is not None or os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def until_ended() -> None:
    """Sleeps until this process is interrupted or terminated. Both raise KeyboardInterrupt, so that everything is closed in order."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(60)


def log_tail(log: Path) -> str:
    """The end of a log file, with the reason why a server did not start."""
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
