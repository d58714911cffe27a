"""Reads Postgres's lock files, and checks whether the process they name is that server."""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import errno
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The content of a lock file: the process id and the socket's folder."""

    process_id: int
    socket_directory: str


def read_lock_file(file: Path) -> Postmaster | None:
    """Reads a lock file of Postgres. Its first line is the process id, its fifth the socket's folder (empty while the server starts)."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not lines or not lines[0].strip().isdigit():
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
