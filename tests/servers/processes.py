"""Starts servers on loopback, waits until they answer, and ends them by the process id they were started with."""

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

# Longer than the server gives its own Postgres to stop: who kills it leaves that one behind.
STOP_SECONDS_MAX = 150.0
POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 8_000
# Below those the kernel gives to outgoing connections (from 32,768): a server that was killed finds its port free when it starts again.
SERVER_PORTS = range(15_000, 32_000)


class ServerNotReadyError(Exception):
    """A server ended or stayed silent; the message carries the end of its log."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has at this moment, and that no outgoing connection is given while its server is down."""
    while True:
        port = secrets.choice(SERVER_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    """Whether something accepts connections on that port of 127.0.0.1."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def answers(uri: str) -> bool:
    """Whether a GET of that address is answered with a 2xx."""
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
    """A server process in a group of its own for the length of the block: ready at the start, gone at the end, its output in `log`."""
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
    """Return once `ready()` holds; raise ServerNotReadyError when the process ends or the time is over."""
    deadline = time.monotonic() + seconds_max
    while not ready():
        if has_ended(process):
            raise ServerNotReadyError(f"{process.args!r} ended with {stop(process)}:\n{log_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerNotReadyError(f"{process.args!r} was not ready within {seconds_max} s:\n{log_tail(log)}")
        time.sleep(POLL_SECONDS)


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str], *, seconds_max: float = STOP_SECONDS_MAX) -> int:
    """End a process started in a group of its own: asked first (SIGTERM), then with all it started (SIGKILL). Answers the exit status."""
    if process.returncode is not None:
        # Its id may be another's by now, and so may its group's.
        return process.returncode
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds_max
    while not has_ended(process) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def has_ended(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> bool:
    """Whether it has; it is only looked at and not waited for, so that its id, and its group's, stay its own."""
    return process.returncode is not None or os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def until_ended() -> None:
    """Sleep until this process is interrupted or told to end, either of by KeyboardInterrupt: what runs is then closed in order."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(60)


def log_tail(log: Path) -> str:
    """The end of a log file, enough to see why a server did not start."""
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
