"""Makes virtual environments from hash-locked requirement files, with nothing but Python and a package registry at hand.

    python -m requirements.environment FOLDER LOCK [--project]

pip fetches a pinned uv once; uv does the rest. An environment carries a stamp of everything that went into it, so that a second call costs
a few milliseconds. `--project` adds this project itself in editable form, which gives `bin/icecore`, and the links by which mypy finds its
packages. Standard library only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
TOOLS = ROOT / ".tools"
STAMP = ".icecore-stamp"
TYPES = "types"

# What pip is told by its own variables and uv by others: a machine that reaches its registry through pip's settings needs no more.
UV_NAMES = {
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
}
PIP_SETTINGS = {"global.cert": "SSL_CERT_FILE", "global.extra-index-url": "UV_INDEX", "global.index-url": "UV_DEFAULT_INDEX"}


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold the machine-wide lock of that name: two callers never make the same thing at the same time."""
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint(*parts: str | Path) -> str:
    """The sha256 over texts and over the contents of files."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def uv() -> Path:
    """The pinned uv, fetched by pip on the first call."""
    lock = REQUIREMENTS / "bootstrap.lock"
    folder = TOOLS / f"uv-{fingerprint(lock)[:12]}"
    program = folder / "bin" / "uv"
    if program.exists():
        return program
    with exclusive("uv"):
        if not program.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _fetch_uv(folder, lock)
    return program


def _fetch_uv(folder: Path, lock: Path) -> None:
    print("Fetching uv, which installs the packages", file=sys.stderr, flush=True)
    making = folder.with_name(folder.name + ".making")
    shutil.rmtree(making, ignore_errors=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--requirement", str(lock)]
    try:
        venv.create(making / "pip", with_pip=True)
        pip = [str(python_of(making / "pip")), "-m", "pip"]
    except subprocess.CalledProcessError:  # a Python without ensurepip, as Debian splits it; its own pip will do
        pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "install", *options, "--target", str(making)], check=True)
    shutil.rmtree(making / "pip", ignore_errors=True)
    making.rename(folder)


def uv_environment() -> dict[str, str]:
    """The environment uv runs in: what pip was told about the registry, as uv's variables."""
    environment = dict(os.environ)
    for pip_name, uv_name in UV_NAMES.items():
        if os.environ.get(pip_name):
            environment.setdefault(uv_name, os.environ[pip_name])
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        if name in PIP_SETTINGS:
            environment.setdefault(PIP_SETTINGS[name], value.strip("'\""))
    environment.pop("VIRTUAL_ENV", None)
    return environment


def make(environment: Path, lock: Path, *, project: bool = False) -> Path:
    """Make or refresh an environment so that it holds exactly what the lock names; answer with its Python."""
    inputs: list[str | Path] = [sys.version, str(environment), lock, REQUIREMENTS / "build.lock"]
    if project:
        inputs.append(ROOT / "pyproject.toml")
    wanted = fingerprint(*inputs)
    stamp = environment / STAMP
    if not (stamp.exists() and stamp.read_text() == wanted):
        with exclusive(environment.name):
            if not (stamp.exists() and stamp.read_text() == wanted):
                _fill(environment, lock, project=project)
                stamp.write_text(wanted)
    if project:
        with exclusive(environment.name):
            _link_types(environment / TYPES)
    return python_of(environment)


def _fill(environment: Path, lock: Path, *, project: bool) -> None:
    if not python_of(environment).exists():
        venv.create(environment, with_pip=False, clear=True)
    call = [str(uv()), "pip"]
    print(f"Installing the packages of {lock.name} into {environment.name}", file=sys.stderr, flush=True)
    # On a terminal uv shows how far it is.
    where = [
        *([] if sys.stderr.isatty() else ["--quiet"]),
        "--python",
        str(python_of(environment)),
        "--build-constraints",
        str(REQUIREMENTS / "build.lock"),
    ]
    variables = uv_environment()
    subprocess.run([*call, "sync", *where, "--require-hashes", str(lock)], check=True, env=variables)
    if project:
        subprocess.run([*call, "install", *where, "--no-deps", "--editable", str(ROOT)], check=True, env=variables)


def _link_types(folder: Path) -> None:
    """Link the sources under the dotted names they have when installed: mypy reads names from paths, and knows no mapping."""
    shutil.rmtree(folder, ignore_errors=True)
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-dir"]
    root = folder / "icecore"
    root.mkdir(parents=True)
    for name, source in folders.items():
        if name == "icecore":
            for each in (ROOT / source).iterdir():
                (root / each.name).symlink_to(each)
        else:
            (root / name.removeprefix("icecore.")).symlink_to(ROOT / source)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a virtual environment from a hash-locked requirement file.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--project", action="store_true", help="add this project in editable form")
    given = parser.parse_args()
    make(given.folder.resolve(), given.lock.resolve(), project=given.project)


if __name__ == "__main__":
    main()
