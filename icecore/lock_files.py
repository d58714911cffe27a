"""Lock files, closed to other accounts, with a timeout and the name of the process that holds them."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

POLL_SECONDS = 0.02


class LockTimeoutError(Exception):
    """The lock was not released before the deadline. The message names its holder if it is known."""


@contextmanager
def opened_lock_file(path: Path) -> Iterator[BinaryIO]:
    """Opens the file at `path` and creates it if needed. Other accounts may not open it, because they could lock it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        status = os.fstat(descriptor)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        yield file


def lock(file: BinaryIO, path: Path, *, shared: bool = False, seconds_max: float) -> None:
    """Locks `file`, opened from `path`, until it is closed. Raises LockTimeoutError."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + seconds_max
    while not try_lock(file, kind):
        if time.monotonic() > deadline:
            raise LockTimeoutError(f"the lock {path} was not free for {seconds_max:g} s{_held_by(path)}")
        time.sleep(POLL_SECONDS)


def try_lock(file: BinaryIO, kind: int) -> bool:
    """Tries to lock without waiting and returns whether it succeeded; `kind` is LOCK_SH or LOCK_EX."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holders(path: Path) -> list[int]:
    """The processes that hold the lock of `path`. Empty on systems other than Linux."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    # "1: FLOCK  ADVISORY  WRITE 4711 08:01:12345 0 EOF"; a waiting process has "->" in the second column. The device is not compared,
    # because for some file systems it differs from that of stat.
    found = [line.split() for line in lines]
    return [int(fields[4]) for fields in found if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode)]


def _held_by(path: Path) -> str:
    found = [process for process in holders(path) if process != os.getpid()]
    return f"; held by {', '.join(_described(process) for process in found)}" if found else ""


def _described(process: int) -> str:
    try:
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"process {process}"
    return f"process {process} ({name})"
