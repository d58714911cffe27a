"""Finds a JDK that Spark 4 and Iceberg 1.11 run on, or installs Debian's; starts servers on it."""

import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.servers import debian
from tests.servers.paths import ToolMissingError, exclusive
from tests.servers.processes import running

# Iceberg 1.11 needs 17. Hadoop 3.4 calls Subject.getSubject, which Java 24 removed.
VERSION_MIN = 17
VERSION_MAX = 23
SERVER_SECONDS_MAX = 120.0
PLACES = (Path("/usr/lib/jvm"), Path("/opt/java"), Path("/Library/Java/JavaVirtualMachines"))


@functools.cache
def java_home() -> Path:
    """The home of a JDK between the two versions: JAVA_HOME, then PATH, then the usual folders, then Debian's package.

    Raises ToolMissingError if there is none and none can be installed.
    """
    found = _find()
    if found is None:
        with exclusive("java"):
            found = _find()
            if found is None:
                debian.install("openjdk-17-jdk-headless", "openjdk-21-jdk-headless", wanted=f"A JDK {VERSION_MIN} to {VERSION_MAX}")
                found = _find()
    if found is None:
        raise ToolMissingError(f"No JDK {VERSION_MIN} to {VERSION_MAX} is to be found, not even after installing one")
    return found


def java_environment() -> dict[str, str]:
    """The environment of a process that finds this JDK by JAVA_HOME and by PATH."""
    home = java_home()
    return {**os.environ, "JAVA_HOME": str(home), "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


@dataclass(frozen=True, slots=True)
class JavaServer:
    """A running foreign catalog: its URL for Iceberg clients, and its process."""

    uri: str
    process_id: int


@contextlib.contextmanager
def java_server(arguments: list[str], *, uri: str, log: Path, ready: Callable[[], bool], home: Path | None = None) -> Iterator[JavaServer]:
    """Runs `java` with these arguments and a heap of at most 1 GiB for the length of the block.

    home -- of another Java than `java_home()`.
    """
    command = [str((home or java_home()) / "bin" / "java"), "-Xmx1g", *arguments]
    with running(command, log=log, ready=ready, seconds_max=SERVER_SECONDS_MAX) as process:
        yield JavaServer(uri, process.pid)


def _find() -> Path | None:
    return next((home for home in _candidates() if _is_usable(home)), None)


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("javac")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for place in PLACES:
        yield from sorted(place.glob("*"))
        yield from sorted(place.glob("*/Contents/Home"))


def _is_usable(home: Path) -> bool:
    if not all((home / "bin" / name).is_file() for name in ("java", "javac")):
        return False
    said = subprocess.run([home / "bin" / "javac", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"javac (\d+)", said.stdout + said.stderr)
    return version is not None and VERSION_MIN <= int(version[1]) <= VERSION_MAX


if __name__ == "__main__":
    print(java_home())
