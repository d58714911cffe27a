"""Finds Maven or installs Debian's, and copies pinned jars from Maven Central."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.servers import debian
from tests.servers.java import java_environment
from tests.servers.paths import CACHE, TOOLS, ToolMissingError, exclusive

DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0"
# A repository of the checkout, so that tests use only what this project fetched.
REPOSITORY = CACHE / "maven"
SECONDS_MAX = 900


@dataclass(frozen=True)
class Jar:
    """A file of Maven Central: its coordinates (`group:artifact:version[:packaging[:classifier]]`) and its sha256."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version, *packaging = self.coordinates.split(":")
        return f"{'-'.join([artifact, version, *packaging[1:]])}.{packaging[0] if packaging else 'jar'}"


def maven() -> Path:
    """Maven's program, installed by apt if it is missing. Raises ToolMissingError if that fails."""
    if shutil.which("mvn") is None:
        with exclusive("mvn"):
            if shutil.which("mvn") is None:
                debian.install("maven", wanted="Maven")
    found = shutil.which("mvn")
    if found is None:
        raise ToolMissingError("Maven is not on PATH, not even after installing it")
    return Path(found)


def run(*arguments: str, pom: Path | None = None, build: Path | None = None) -> str:
    """Runs Maven in batch mode on the repository of this checkout, one call at a time, because Maven 3 does not lock it. Returns its
    output.

    build -- the build folder, for poms that use `kit.build`; default: beside the pom.
    """
    where = [*(["-f", str(pom)] if pom else []), *([f"-Dkit.build={build}"] if build else [])]
    command = [str(maven()), "-B", f"-Dmaven.repo.local={REPOSITORY}", *where, *arguments]
    with exclusive("maven"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=java_environment(), check=False)
    if done.returncode != 0:
        raise ToolMissingError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def fetch(pom: Path) -> None:
    """Fetches what a pom's test run needs, including plugins, without running a test."""
    with tempfile.TemporaryDirectory() as build:
        run("-q", "test", "-DskipTests", pom=pom, build=Path(build))


def jar(wanted: Jar) -> Path:
    """The local path of a jar. It is fetched once and must have the pinned digest."""
    folder = TOOLS / "jars"
    path = folder / wanted.file_name
    if not path.exists():
        with exclusive(f"jar-{wanted.file_name}"):
            if not path.exists():
                making = folder / f".{wanted.file_name}.making"
                run("-q", f"{DEPENDENCY_PLUGIN}:copy", f"-Dartifact={wanted.coordinates}", f"-DoutputDirectory={making}")
                _check_digest(making / wanted.file_name, wanted)
                (making / wanted.file_name).rename(path)
                making.rmdir()
    return path


def _check_digest(path: Path, wanted: Jar) -> None:
    with path.open("rb") as content:
        actual = hashlib.file_digest(content, "sha256").hexdigest()
    if actual != wanted.sha256:
        path.unlink()
        raise ToolMissingError(f"{wanted.coordinates} has the sha256 {actual}, not {wanted.sha256}")


def class_path(pom: Path, *, profile: str) -> str:
    """The class path of a pom's dependencies under a profile, resolved once per content of the pom."""
    digest = hashlib.sha256(pom.read_bytes() + profile.encode()).hexdigest()[:16]
    kept = CACHE / f"class-path-{digest}"
    if not kept.exists() or not all(Path(entry).exists() for entry in kept.read_text().split(os.pathsep)):
        making = kept.with_suffix(".making")
        run("-q", f"-P{profile}", f"{DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={making}", pom=pom)
        making.rename(kept)
    return kept.read_text()


if __name__ == "__main__":
    print(maven())
