"""Finds Maven or installs Debian's, and copies pinned jars out of Maven Central."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.servers import debian
from tests.servers.java import java_environment
from tests.servers.places import CACHE, TOOLS, ToolMissingError, exclusive

DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0"
# One repository of our own: what a test uses is what this project fetched.
REPOSITORY = CACHE / "maven"
SECONDS_MAX = 900


@dataclass(frozen=True)
class Jar:
    """A file of Maven Central: its coordinates (`group:artifact:version[:jar:classifier]`) and the sha256 it must have."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version, *packaging = self.coordinates.split(":")
        return f"{'-'.join([artifact, version, *packaging[1:]])}.jar"


def maven() -> Path:
    """Maven's program; installed by apt where it is missing. Raises ToolMissingError where that cannot be."""
    if shutil.which("mvn") is None:
        with exclusive("mvn"):
            if shutil.which("mvn") is None:
                debian.install("maven", wanted="Maven")
    found = shutil.which("mvn")
    if found is None:
        raise ToolMissingError("Maven is not on PATH, not even after installing it")
    return Path(found)


def run(*arguments: str, pom: Path | None = None, build: Path | None = None) -> str:
    """One Maven call in batch mode on the repository of this checkout; one at a time, since Maven 3 does not lock it. Answers its output.

    build -- where a pom's build goes, for poms that take `kit.build`; beside the pom when not given.
    """
    where = [*(["-f", str(pom)] if pom else []), *([f"-Dkit.build={build}"] if build else [])]
    command = [str(maven()), "-B", f"-Dmaven.repo.local={REPOSITORY}", *where, *arguments]
    with exclusive("maven"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=java_environment(), check=False)
    if done.returncode != 0:
        raise ToolMissingError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def fetch(pom: Path) -> None:
    """Fetch what a pom's test run needs, plugins included, without running a test."""
    with tempfile.TemporaryDirectory() as build:
        run("-q", "test", "-DskipTests", pom=pom, build=Path(build))


def jar(wanted: Jar) -> Path:
    """The local path of a jar, fetched at most once, with the digest it is pinned to."""
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
    """The class path of a pom's dependencies under a profile, resolved at most once per content of the pom."""
    digest = hashlib.sha256(pom.read_bytes() + profile.encode()).hexdigest()[:16]
    kept = CACHE / f"class-path-{digest}"
    if not kept.exists() or not all(Path(entry).exists() for entry in kept.read_text().split(os.pathsep)):
        making = kept.with_suffix(".making")
        run("-q", f"-P{profile}", f"{DEPENDENCY_PLUGIN}:build-classpath", f"-Dmdep.outputFile={making}", pom=pom)
        making.rename(kept)
    return kept.read_text()


if __name__ == "__main__":
    print(maven())
