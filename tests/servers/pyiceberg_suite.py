"""PyIceberg's own integration suite, unchanged from its source distribution, in a separate environment."""

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from requirements import environment
from tests.servers.paths import REQUIREMENTS, TOOLS, exclusive

SDIST = REQUIREMENTS / "pyiceberg-sdist.lock"


@dataclass(frozen=True)
class Suite:
    """The suite's Python environment, and the folder with its `tests/`, `dev/` and `pyproject.toml`."""

    python: Path
    directory: Path


def pyiceberg_suite(*, full: bool = False) -> Suite:
    """The suite for local files; with `full` also the packages for its tests of Spark Connect, S3, ray and daft."""
    name = "pyiceberg-suite-full" if full else "pyiceberg-suite"
    python = environment.make(TOOLS / name, REQUIREMENTS / f"{name}.lock")
    return Suite(python, _sources())


def _sources() -> Path:
    """`tests/`, `dev/` and `pyproject.toml` of the pinned source distribution. The package itself is left out, because it would hide the
    installed one.
    """
    directory = TOOLS / f"pyiceberg-sources-{environment.fingerprint(SDIST)[:12]}"
    if not directory.exists():
        with exclusive("pyiceberg-sources"):
            if not directory.exists():
                _unpack(directory)
    return directory


def _unpack(directory: Path) -> None:
    making = directory.with_name(f"{directory.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps", "--no-binary", "pyiceberg"]
    subprocess.run([*pip, "--require-hashes", "--requirement", str(SDIST), "--dest", str(making)], check=True)
    archive = next(making.glob("pyiceberg-*.tar.gz"))
    with tarfile.open(archive) as sources:
        sources.extractall(making, filter="data")
    unpacked = making / archive.name.removesuffix(".tar.gz")
    kept = making / "kept"
    kept.mkdir()
    for part in ("tests", "dev", "pyproject.toml", "LICENSE", "NOTICE"):
        (unpacked / part).rename(kept / part)
    kept.rename(directory)
    shutil.rmtree(making)


if __name__ == "__main__":
    print(pyiceberg_suite(full="--full" in sys.argv))
