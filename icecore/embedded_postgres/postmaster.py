"""Reads Postgres's lock files, and checks whether the process they name is that server."""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import errno
import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

_LOCK_FILE_BYTES_MAX = 8 * 1024


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The content of a lock file: the process id and the socket's folder."""

    process_id: int
    socket_directory: str


def read_lock_file(file: Path) -> Postmaster | None:
    """Reads a lock file of Postgres. Its first line is the process id, its fifth the socket's folder (empty while the server starts).

    None if there is none, or if the account of Postgres put something else there: a pipe would block, a link may lead to a file of root.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as opened:
        lines = opened.read(_LOCK_FILE_BYTES_MAX).decode(errors="replace").splitlines()
    if not lines or not re.fullmatch(r"[0-9]{1,9}", lines[0].strip()):
        return None
    return Postmaster(int(lines[0]), lines[4].strip() if len(lines) > 4 else "")


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_postgres(process_id: int, data: Path) -> bool:
    """Whether the process is the server of this cluster, according to its command line. Raises OSError if no file can be opened."""
    try:
        command = Path(f"/proc/{process_id}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        if Path("/proc/self/cmdline").exists():
            return False
        listed = subprocess.run(["/bin/ps", "-ww", "-o", "command=", "-p", str(process_id)], capture_output=True, text=True, check=False)
        command = listed.stdout
    return "postgres" in command and str(data) in command
