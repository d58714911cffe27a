"""Reads Postgres's lock files, and checks whether the process they name is that server."""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What a lock file says: the process, and where its socket is."""

    process_id: int
    socket_directory: str


def read_lock_file(file: Path) -> Postmaster | None:
    """A lock file of Postgres: the process on its first line, the socket's folder on the fifth (empty while the server starts)."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not lines or not lines[0].strip().isdigit():
        return None
    return Postmaster(int(lines[0]), lines[4].strip() if len(lines) > 4 else "")


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_postgres(process_id: int, data: Path) -> bool:
    """Whether that process is the server of this cluster, by its command line."""
    try:
        command = Path(f"/proc/{process_id}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return False
        listed = subprocess.run(["/bin/ps", "-ww", "-o", "command=", "-p", str(process_id)], capture_output=True, text=True, check=False)
        command = listed.stdout
    return "postgres" in command and str(data) in command
