"""The data folder of the embedded default: Postgres, the files of the warehouse `demo` and the key of its secrets in one place."""

import base64
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson

from icecore.exit_codes import CommandFailed, ExitCode

_SERVING = "serving"
SECRET_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Serving:
    """The `icecore serve` that has a data folder: its process, and the catalog's address once it listens."""

    process_id: int
    url: str | None


@dataclass(frozen=True, slots=True)
class DataFolder:
    """One data folder; `path` is absolute."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "DataFolder":
        """The folder at `path`, made if it is not there; a clone's version control leaves it alone."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            ignored = path / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise CommandFailed(ExitCode.USAGE, f"The data folder {path} cannot be made: {error}") from None
        return cls(path.resolve())

    @classmethod
    def existing(cls, path: Path) -> "DataFolder":
        """The folder at `path`, which a server must have made: a question never makes an empty catalog to ask."""
        if not (path / "postgres.users").exists():
            raise CommandFailed(ExitCode.USAGE, f"{path} holds no catalog; `icecore serve --data {path}` makes one")
        return cls(path.resolve())

    @property
    def warehouse_directory(self) -> Path:
        return self.path / "warehouse"

    def secret_key_file(self) -> Path:
        """The key of this folder's secrets, made on first use, for this account alone."""
        file = self.path / "secret.key"
        key = base64.b64encode(secrets.token_bytes(SECRET_KEY_BYTES)) + b"\n"
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return file
        try:
            os.write(descriptor, key)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return file

    @contextmanager
    def claimed(self) -> Iterator["Claim"]:
        """The folder for one `icecore serve`, until the block ends or the process dies."""
        with (self.path / _SERVING).open("a+b") as file:
            if not _locked(file):
                raise CommandFailed(ExitCode.BUSY, self._taken())
            claim = Claim(self.path / _SERVING)
            claim.write(None)
            try:
                yield claim
            finally:
                claim.clear()

    def serving(self) -> Serving | None:
        """Who serves this folder now; None if nobody does."""
        try:
            with (self.path / _SERVING).open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found = orjson.loads(file.read() or b"{}")
                    return Serving(found.get("process_id", 0), found.get("url"))
        except FileNotFoundError:
            pass
        return None

    def _taken(self) -> str:
        found = self.serving()
        where = f" at {found.url}" if found and found.url else ""
        process = f" (process {found.process_id})" if found and found.process_id else ""
        return f"Another icecore serve{process} has the data folder {self.path}{where}; stop it, or give this one another folder by --data"


def _locked(file: BinaryIO) -> bool:
    """Whether the lock was had; `serving` holds it for an instant to look, which is not a server."""
    for _ in range(10):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Claim:
    """The note that a server leaves in its data folder."""

    file: Path

    def write(self, url: str | None) -> None:
        """Says who serves, and where."""
        self.file.write_bytes(orjson.dumps({"process_id": os.getpid(), "url": url}))

    def clear(self) -> None:
        self.file.write_bytes(b"")
