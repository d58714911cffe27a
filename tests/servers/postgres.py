"""A temporary Postgres cluster of the distribution's server, on loopback, also for root."""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.servers import debian
from tests.servers.paths import ToolMissingError, exclusive
from tests.servers.processes import free_port, until_ended

USER = "postgres"


@functools.cache
def binaries() -> Path:
    """The folder of initdb and pg_ctl of Debian's newest installed Postgres; installed by apt if there is none."""
    found = _find()
    if found is None:
        with exclusive("postgres"):
            found = _find()
            if found is None:
                debian.install("postgresql", wanted="Postgres")
                found = _find()
    if found is None:
        raise ToolMissingError("No initdb and pg_ctl are to be found, not even after installing Postgres")
    return found


def _find() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("initdb")
    candidates = [*reversed(installed), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((folder for folder in candidates if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def start_debian_postgres(directory: Path, port: int, options: str = "") -> str:
    """Creates and starts a cluster in `directory`, which then belongs to the server's account. Returns its DSN.

    options -- additional options of the server: `-c name=value …`; all others have the distribution's defaults, including fsync and
    synchronous_commit. End it with `stop_debian_postgres(directory)`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(directory, USER, USER)
    directory.chmod(0o700)
    _as_server("initdb", "-D", str(directory / "data"), "-U", USER, "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8", directory=directory)
    start_again(directory, f"-p {port} -c listen_addresses=127.0.0.1 -k {directory} {options}")
    return f"postgresql://{USER}@127.0.0.1:{port}/postgres"


def start_again(directory: Path, options: str) -> None:
    """Starts a stopped or crashed cluster with these options of the server."""
    _as_server("pg_ctl", "-D", str(directory / "data"), "-w", "-l", str(directory / "log"), "-o", options, "start", directory=directory)


def stop_debian_postgres(directory: Path, mode: str = "fast") -> None:
    """Stops the cluster of `directory`: "fast" gracefully, "immediate" as in a crash."""
    _as_server("pg_ctl", "-D", str(directory / "data"), "-w", "-m", mode, "stop", directory=directory)


def _as_server(program: str, *arguments: str, directory: Path) -> None:
    """Runs as the user `postgres` if this process is root, because Postgres refuses to run as root."""
    command = [str(binaries() / program), *arguments]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command]
    done = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        log = directory / "log"
        raise ToolMissingError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{log.read_text() if log.exists() else ''}"
        )


@contextlib.contextmanager
def debian_postgres(options: str = "", directory: Path | None = None) -> Iterator[str]:
    """A cluster for the length of the block, in `directory` or a new temporary folder.

    The folder is deleted with the block, and the server's user can reach it.
    """
    directory = directory or Path(tempfile.mkdtemp(prefix="icecore-postgres-"))
    dsn = start_debian_postgres(directory, free_port(), options)
    try:
        yield dsn
    finally:
        stop_debian_postgres(directory, "immediate")
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    with debian_postgres() as address:
        print(address, flush=True)
        until_ended()
