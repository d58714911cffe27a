"""A cluster on disk and its server: created by `initdb`, started and stopped by `pg_ctl`."""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import structlog
from psycopg.conninfo import make_conninfo

from ..database.connection import CONNECT_TIMEOUT_SECONDS
from ..database.named_sql import named_sql
from ..domain.client_errors import client_error_text
from ..exit_codes import CommandFailed
from ..owned_files import append_in, opened_owned
from ..storage.file_sync import sync_folder
from .account import Account
from .binaries import usable_binaries
from .cluster_directories import ClusterDirectories, cluster_directories, server_account
from .errors import DataFolderError, EmbeddedPostgresError
from .postmaster import Postmaster, is_postgres, is_running, read_lock_file

START_SECONDS_MAX = 300
"""Crash recovery after a power failure may replay max_wal_size of WAL before Postgres accepts connections."""
STOP_SECONDS_MAX = 120
LEFTOVER_SECONDS_MAX = 30
"""Child processes of a killed server end within seconds."""

_LOG_END_BYTES = 400

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.embedded_postgres")

DATABASE = "icecore"
SERVING_ROLE = "icecore"
"""The role that serves. It owns nothing and cannot change the log."""
_PORT = 5432  # No TCP port is opened. The number is part of the socket's name, .s.PGSQL.5432.

# The socket's folder is closed to other accounts, and connections over TCP are rejected.
_INITDB_OPTIONS = ("--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--no-locale")

# Log files of a few MB with errors only, without the values of rows (a key may be tenant data) and without statements.
_CONFIGURATION = """
# Icecore's choices; edit at will, they are written once. fsync, synchronous_commit and full_page_writes must stay on.
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 256MB
autovacuum_naptime = 10s
effective_cache_size = 1GB
maintenance_work_mem = 128MB
wal_compression = on
min_wal_size = 256MB
max_wal_size = 2GB
checkpoint_timeout = 15min
random_page_cost = 1.1
jit = off
timezone = 'UTC'
fsync = on
synchronous_commit = on
full_page_writes = on
logging_collector = on
log_directory = 'log'
log_filename = 'postgres-%a.log'
log_truncate_on_rotation = on
log_rotation_age = 1d
log_rotation_size = 0
log_min_messages = warning
log_min_error_statement = panic
log_error_verbosity = terse
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster on disk and the account of its server. Every method is called under the start-or-stop lock."""

    directories: ClusterDirectories
    account: Account
    binaries: Path

    @classmethod
    def at(cls, directory: Path, binaries: Path | None, state_directory: Path) -> "Cluster":
        account = server_account(directory)
        directories = cluster_directories(directory, account, state_directory)
        return cls(directories, account, usable_binaries(directories.data, account, binaries, state_directory))

    def ensure_running(self, *, create: bool) -> str:
        """Starts the cluster's server if it does not run, and returns the DSN.

        create -- create the cluster if it does not exist. Otherwise it is known that there was one, and DataFolderError is raised.
        """
        self._remove_unfinished()
        if not (self.directories.data / "PG_VERSION").exists():
            if self.directories.data.exists() and any(self.directories.data.iterdir()):
                raise DataFolderError(f"{self.directories.data}/PG_VERSION is missing: restore the data folder from a backup")
            if not create:
                raise DataFolderError(
                    f"{self.directories.data} is missing, the database of a data folder that was served before: restore the folder from a "
                    "backup, or delete the rest of it to begin with an empty catalog",
                )
            self._create()
        running = self._running()
        if running is None:
            running = self._start()
        try:
            _create_database(_dsn(running.socket_directory, "postgres"))
        except psycopg.Error as error:
            # The server may die right after it has responded. The watch counts that as a failed start.
            raise EmbeddedPostgresError(f"Postgres started in {self.directories.data}, then failed: {client_error_text(error)}") from error
        return _dsn(running.socket_directory, DATABASE)

    def stop(self) -> None:
        """Disconnects clients, writes a checkpoint and waits until the server has ended."""
        if self._running() is None:
            return
        stopped = self._run("pg_ctl", "stop", "-D", str(self.directories.data), "-m", "fast", "-w", "-t", str(STOP_SECONDS_MAX))
        if stopped.returncode != 0:
            raise EmbeddedPostgresError(f"The embedded Postgres did not stop within {STOP_SECONDS_MAX} s: {_last_lines(stopped)}")

    def _create(self) -> None:
        # initdb writes to a temporary folder that is renamed at the end, so that an incomplete cluster is not used. The folder has a new
        # name, because the initdb of a killed process may still write to its own.
        unfinished = self.directories.root / f"unfinished.{secrets.token_hex(4)}"
        made = self._run("initdb", "-D", str(unfinished), "-U", "postgres", *_INITDB_OPTIONS)
        if made.returncode != 0:
            raise EmbeddedPostgresError(f"initdb failed in {unfinished}: {_last_lines(made)}")
        try:
            append_in(self.directories.root, (unfinished.name, "postgresql.conf"), _CONFIGURATION.encode(), self.account.user_id)
        except OSError as error:
            raise EmbeddedPostgresError(f"{unfinished / 'postgresql.conf'} cannot be written: {error.strerror}") from None
        unfinished.rename(self.directories.data)
        sync_folder(self.directories.root)

    def _remove_unfinished(self) -> None:
        """Removes what killed processes left of clusters that were not finished. Under the lock none is being created.

        An initdb that still writes there fails and ends. What it wrote meanwhile is removed by the next start.
        """
        for path in self.directories.root.iterdir():
            if not re.fullmatch(r"unfinished(\.[0-9a-f]{8})?", path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _running(self) -> Postmaster | None:
        """The running server of this cluster, once it responds; None if there is none."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            found = read_lock_file(self.directories.data / "postmaster.pid")
            if found is None or not is_postgres(found.process_id, self.directories.data):
                return None
            if found.socket_directory and _responds(_dsn(found.socket_directory, "postgres")):
                return found
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"Postgres (process {found.process_id}) does not respond; see {self.directories.data}/log")
            time.sleep(0.05)

    def _start(self) -> Postmaster:
        self.directories.make_socket_directory(self.account)
        self._remove_stale_lock_files()
        # On the command line, because the configuration file and ALTER SYSTEM do not override it there.
        options = f"-c listen_addresses='' -c unix_socket_directories={shlex.quote(str(self.directories.socket))} -c port={_PORT}"
        deadline = time.monotonic() + LEFTOVER_SECONDS_MAX
        while True:
            (self.directories.data / "start.log").unlink(missing_ok=True)
            started = self._run(
                "pg_ctl", "start", "-D", str(self.directories.data), "-w", "-t", str(START_SECONDS_MAX),
                "-l", str(self.directories.data / "start.log"), "-o", options,
            )  # fmt: skip
            running = self._running()
            if running is not None:
                return running
            # After kill -9 the server's child processes hold the shared memory for a moment.
            log = self._end_of_log()
            if "shared memory block" not in log or time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"Postgres did not start in {self.directories.data}: {_last_lines(started)} {log}")
            time.sleep(0.2)

    def _end_of_log(self) -> str:
        """The last lines of the server's output and of its log file."""
        found: list[tuple[float, str]] = []
        for file in (self.directories.data / "start.log", *(self.directories.data / "log").glob("*.log")):
            # The account of Postgres may put a link or a pipe there.
            with suppress(OSError, CommandFailed), opened_owned(file) as opened:
                opened.seek(max(0, os.fstat(opened.fileno()).st_size - _LOG_END_BYTES))
                found.append((os.fstat(opened.fileno()).st_mtime, opened.read(_LOG_END_BYTES).decode(errors="replace").strip()))
        return "\n".join(end for _, end in sorted(found)[-2:])

    def _remove_stale_lock_files(self) -> None:
        """Removes lock files whose process id belongs to an unrelated process. Postgres accepts any process of its account with that id,
        also a zombie or one started after a reboot.

        A file whose process has ended is left to Postgres, because child processes of that server may still run.
        """
        for file in (self.directories.data / "postmaster.pid", self.directories.socket / f".s.PGSQL.{_PORT}.lock"):
            found = read_lock_file(file)
            if found is not None and is_running(found.process_id) and not is_postgres(found.process_id, self.directories.data):
                _log.info("stale_lock_file_removed", file=file.name, process_id=found.process_id)
                file.unlink(missing_ok=True)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.account.run([str(self.binaries / program), *arguments], seconds_max=START_SECONDS_MAX + 10)


def serving_dsn(owner_dsn: str) -> str:
    """The DSN of the same database for the role that serves."""
    return make_conninfo(owner_dsn, user=SERVING_ROLE)


def _dsn(socket_directory: str, database: str) -> str:
    return make_conninfo("", host=socket_directory, port=_PORT, user="postgres", dbname=database)


def _responds(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS, autocommit=True):
            return True
    except psycopg.OperationalError:
        return False


def _create_database(dsn: str) -> None:
    with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS, autocommit=True) as connection:
        blocks = named_sql("icecore.embedded_postgres", "cluster.sql")
        if connection.execute(blocks["database_exists"], (DATABASE,)).fetchone() == (False,):
            connection.execute(blocks["create_database"])
        if connection.execute(blocks["role_exists"], (SERVING_ROLE,)).fetchone() == (False,):
            connection.execute(blocks["create_role"])


def _last_lines(process: subprocess.CompletedProcess[str]) -> str:
    return (process.stderr.strip() or process.stdout.strip())[-800:]
