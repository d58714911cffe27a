"""The data folder of the embedded Postgres: the cluster, the files of the warehouse `demo` and the secret key."""

import base64
import fcntl
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from .embedded_postgres import DataFolderError, EmbeddedPostgresError, server_account
from .exit_codes import CommandFailed, ExitCode
from .lock_files import LockTimeoutError, holders, lock, opened_lock_file
from .owned_files import opened_owned, read_owned, refuse_foreign, write_owned

_SERVING = "serving"
_USERS = "postgres.users"
_PATH = "served.at"
KEY_FILE = "secret.key"
_NEVER_LINKS = (KEY_FILE, _PATH, _SERVING, _USERS, "postgres", "postgres.lock", "postgres.location")
CLAIM_SECONDS_MAX = 0.2
SECRET_KEY_BYTES = 32

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.data_folder")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The `icecore serve` process that uses a data folder, and its address once it listens."""

    process_id: int
    url: str | None


@dataclass(frozen=True, slots=True)
class DataFolder:
    """One data folder; `path` is absolute."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "DataFolder":
        """Opens the folder at `path`. Creates it if it does not exist, closed to other accounts and ignored by git."""
        if os.fsencode(path).decode(errors="ignore") != str(path):
            raise CommandFailed(ExitCode.USAGE, f"The path of the data folder must be UTF-8 text: {str(path)!r}")
        _refuse_closed(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            _refuse_foreign(path)
            _close_to_others(path)
            _ignore(path / ".gitignore")
        except (FileExistsError, NotADirectoryError):
            raise CommandFailed(ExitCode.USAGE, f"The data folder {path} cannot be created: a file has that name") from None
        except OSError as error:
            failed = "written" if path.is_dir() else "created"
            raise CommandFailed(ExitCode.USAGE, f"The data folder {path} cannot be {failed}: {error.strerror}") from None
        except EmbeddedPostgresError as error:
            raise embedded_failure(error) from None
        folder = cls(path.resolve())
        folder._refuse_copied()
        return folder

    @classmethod
    def existing(cls, path: Path) -> "DataFolder":
        """Opens the folder at `path` without creating it, so that a command that only reads does not create an empty catalog."""
        _refuse_closed(path)
        if path.is_file():
            raise CommandFailed(ExitCode.USAGE, f"{path} is a file, not a data folder")
        _refuse_foreign(path)
        if not (path / _USERS).exists():
            command = f"icecore serve --data {shlex.quote(str(path))}"
            raise CommandFailed(
                ExitCode.USAGE,
                f"{path} contains no catalog: set ICECORE_DATABASE_URL if it is in a Postgres of your own, or create one with `{command}`",
            )
        folder = cls(path.resolve())
        folder._refuse_copied()
        return folder

    def secret_key_file(self) -> Path:
        """The file of the key that encrypts this folder's secrets, readable only by this account. It may be missing."""
        file = self.path / KEY_FILE
        with suppress(FileNotFoundError), opened_owned(file) as opened:
            status = os.fstat(opened.fileno())
            if status.st_mode & 0o077 and status.st_uid == os.geteuid():
                os.fchmod(opened.fileno(), 0o600)
        return file

    def make_secret_key(self) -> Path:
        """Creates the file of the key unless there is one. Only if the database holds no secret, which would need the key of before."""
        if not os.path.lexists(self.path / KEY_FILE):
            write_owned(self.path / KEY_FILE, base64.b64encode(secrets.token_bytes(SECRET_KEY_BYTES)) + b"\n")
        return self.secret_key_file()

    @contextmanager
    def claimed(self) -> Iterator["Claim"]:
        """Locks the folder for one `icecore serve`, until the block ends or the process dies."""
        with opened_lock_file(self.path / _SERVING) as file:
            try:
                # `running_server` holds the lock for a moment to check it.
                lock(file, self.path / _SERVING, seconds_max=CLAIM_SECONDS_MAX)
            except LockTimeoutError:
                raise CommandFailed(ExitCode.BUSY, self._taken()) from None
            claim = Claim(self.path / _SERVING)
            claim.write(None)
            try:
                yield claim
            finally:
                claim.clear()

    def was_served(self) -> bool:
        """Whether the folder was served before, and so had a cluster."""
        return self._written_path() is not None

    def write_path(self) -> None:
        """Writes down that the folder is served at its path. Call it once it has a cluster, and before there are tables."""
        if not self.was_served():
            # An earlier version may have been killed while it wrote the file.
            (self.path / _PATH).unlink(missing_ok=True)
            write_owned(self.path / _PATH, f"{self.path}\n".encode())

    def _written_path(self) -> Path | None:
        """The path of the folder when it was first served; None if it was not written, or not to its end."""
        written = read_owned(self.path / _PATH) or b""
        if not written.startswith(b"/"):
            return None
        text = written.decode(errors="replace").removesuffix("\n")
        if "\0" in text or "\ufffd" in text:
            raise CommandFailed(
                ExitCode.USAGE,
                f"{self.path / _PATH} does not contain a path: restore it from a backup, or remove it if the data folder was neither "
                "copied nor moved",
            )
        return Path(text)

    def _refuse_copied(self) -> None:
        """Raises CommandFailed if the folder was first served at another path. Tables contain the absolute paths of their files, so a
        command on a copy of the folder would write to and delete files of the original.
        """
        known = self._written_path()
        if known is None or known == self.path or _is_same(known, self.path):
            return
        raise CommandFailed(
            ExitCode.USAGE,
            f"The data folder {self.path} was copied or moved from {known}: its tables name their files there. Move it back, or make "
            f"{known} a symbolic link to it. If none of its tables is stored in the folder, you may remove {self.path / _PATH} instead",
        )

    def refuse_served(self) -> None:
        """Raises CommandFailed if an `icecore serve` has this folder."""
        if self.running_server() is not None:
            raise CommandFailed(ExitCode.BUSY, self._taken())

    def running_server(self) -> RunningServer | None:
        """The process that serves this folder; None if there is none. Also for a copied folder, of which only the lock is read."""
        _refuse_closed(self.path)
        _refuse_foreign(self.path)
        try:
            with opened_owned(self.path / _SERVING) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found = orjson.loads(file.read() or b"{}")
                    return RunningServer(found.get("process_id", 0), found.get("url"))
        except FileNotFoundError:
            pass
        return None

    def _taken(self) -> str:
        found = self.running_server()
        where = f" at {found.url}" if found and found.url else ""
        known = [found.process_id] if found and found.process_id else holders(self.path / _SERVING)
        process = f" (process {known[0]})" if known else ""
        return f"Another icecore serve{process} has the data folder {self.path}{where}; stop it, or give this one another folder by --data"


def embedded_failure(error: EmbeddedPostgresError) -> CommandFailed:
    """The end of a command that cannot use the embedded Postgres."""
    return CommandFailed(ExitCode.USAGE if isinstance(error, DataFolderError) else ExitCode.DATABASE, str(error))


def _is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same folder. False for a path that does not exist or is not accessible."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _refuse_closed(path: Path) -> None:
    """Raises CommandFailed if this account may not read the folder or a folder above it."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            next(path.iterdir(), None)
            (path / _USERS).stat()
    except PermissionError:
        raise CommandFailed(ExitCode.USAGE, f"{path} is closed to this account: run the command as the account that serves it") from None


def _refuse_foreign(path: Path) -> None:
    """Raises CommandFailed if another account may have made the folder, or what Icecore uses in it.

    The operator may have moved the folder or `warehouse` to another disk and left a link.
    """
    refuse_foreign(path)
    refuse_foreign(path / "warehouse")
    for name in _NEVER_LINKS:
        refuse_foreign(path / name, link=False, only_file=name != "postgres")


def _ignore(file: Path) -> None:
    """Creates the file `.gitignore` unless there is one. A link of that name is not followed."""
    with suppress(FileExistsError), file.open("x", encoding="utf-8") as opened:
        opened.write("*\n")


def _close_to_others(path: Path) -> None:
    """Removes other accounts' permissions from a folder that was just created or contains a catalog.

    If this process is root, Postgres runs as another account. Its group may enter the folder but not list it.
    """
    status = path.stat()
    ours = not any(path.iterdir()) or (path / _USERS).exists()
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX or not ours:
        if status.st_mode & 0o007:
            _log.warning("data_folder_open_to_others", advice="set mode 0700", path=str(path), mode=oct(status.st_mode & 0o7777))
        return
    if os.geteuid() != 0:
        path.chmod(0o700)
        return
    group = server_account(path.resolve()).group_id
    os.chown(path, -1, group)
    path.chmod(0o710)


@dataclass(frozen=True, slots=True)
class Claim:
    """The file in a data folder that describes its server."""

    file: Path

    def write(self, url: str | None) -> None:
        """Writes the process id and the address."""
        self._replace(orjson.dumps({"process_id": os.getpid(), "url": url}))

    def clear(self) -> None:
        self._replace(b"")

    def _replace(self, data: bytes) -> None:
        """The file itself stays, because it is locked."""
        with os.fdopen(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(data)
