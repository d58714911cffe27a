"""Refuses files that another account may have planted: in a folder open to everyone, it can create them, or links to others' files."""

import errno
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from .exit_codes import CommandFailed, ExitCode
from .storage.file_sync import sync_folder

POSTGRES_ACCOUNTS = ("postgres", "icecore-postgres")
"""If this process is root, the embedded Postgres runs as the first of these that exists. The last is created if none does."""

OWNED_BYTES_MAX = 64 * 1024
"""Limit on a file that is read whole."""


def account_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def refuse_foreign(path: Path, *, link: bool = True, only_file: bool = False) -> None:
    """Raises CommandFailed if `path`, or what it links to, does not belong to this account, root or, for root, one of POSTGRES_ACCOUNTS.

    link -- whether it may be a link. only_file -- whether it must be a file.
    """
    # What this process may not look at, it cannot use either.
    with suppress(OSError):
        status = path.lstat()
        _refuse_owner(path, status)
        if stat.S_ISLNK(status.st_mode):
            if not link:
                raise _linked(path)
            _refuse_owner(path, path.stat())
        elif only_file:
            _refuse_no_file(path, status)


@contextmanager
def opened_owned(path: Path) -> Iterator[BinaryIO]:
    """Opens a file to read. Raises CommandFailed for a link and as `refuse_foreign`, and FileNotFoundError."""
    try:
        # A pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _linked(path) if error.errno == errno.ELOOP else error from None
    try:
        status = os.fstat(descriptor)
        _refuse_owner(path, status)
        _refuse_no_file(path, status)
    except BaseException:
        os.close(descriptor)
        raise
    # Not before: a folder cannot be opened as a file object.
    with os.fdopen(descriptor, "rb") as file:
        yield file


def read_owned(path: Path) -> bytes | None:
    """The content of a file, as `opened_owned`; None if there is none. Raises CommandFailed over OWNED_BYTES_MAX."""
    try:
        with opened_owned(path) as file:
            data = file.read(OWNED_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > OWNED_BYTES_MAX:
        raise CommandFailed(ExitCode.USAGE, f"{path} is larger than {OWNED_BYTES_MAX} bytes, so it is not Icecore's: remove it")
    return data


def write_owned(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Writes a file that only this account can read, atomically. If the name is a link, its target is left unchanged.

    replace -- whether an existing file is replaced; otherwise it is kept.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(descriptor)
        if replace:
            part.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def append_in(directory: Path, names: tuple[str, str], data: bytes, owner: int) -> None:
    """Appends to the file `names`, a folder and a file in it, below `directory`, and syncs it. The account `owner` may change the directory
    at any time: no link in it is followed, and no file of another account is changed.

    Raises OSError for a link, and CommandFailed for a file of another account.
    """
    with ExitStack() as opened:

        def opened_in(parent: int | None, name: str | Path, flags: int) -> int:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
            opened.callback(os.close, descriptor)
            return descriptor

        folder = opened_in(opened_in(None, directory, os.O_RDONLY | os.O_DIRECTORY), names[0], os.O_RDONLY | os.O_DIRECTORY)
        file = opened_in(folder, names[1], os.O_WRONLY | os.O_APPEND)
        status = os.fstat(file)
        # A hard link to a file of another account has the owner of that file.
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise CommandFailed(ExitCode.USAGE, f"{directory.joinpath(*names)} is not a file of account {account_name(owner)}")
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)


def close_to_others(directory: Path, owner: int, group: int | None) -> None:
    """Gives a folder to the account `owner` with mode 0700, and to `group` unless it is None. It must belong to `owner` or to this account.

    Raises OSError for a link or what is no folder, and PermissionError for a folder of another account.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid not in (owner, os.geteuid()):
            raise PermissionError
        if group is not None:
            os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _trusted_accounts() -> set[int]:
    trusted = {0, os.geteuid()}
    if os.geteuid() == 0:
        for name in POSTGRES_ACCOUNTS:
            with suppress(KeyError):
                trusted.add(_user_id(name))
    return trusted


@cache
def _user_id(name: str) -> int:
    """Cached, because the lookup fails once clients have used up this process's file descriptors. A KeyError is not cached."""
    return pwd.getpwnam(name).pw_uid


def _refuse_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in _trusted_accounts():
        raise CommandFailed(
            ExitCode.USAGE,
            f"{path} belongs to account {account_name(status.st_uid)}, which may have planted it: run the command as that account, use "
            "another data folder (--data), or change its owner if you trust its content",
        )


def _refuse_no_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CommandFailed(ExitCode.USAGE, f"{path} is not a file: move it away, and restore the file from a backup")


def _linked(path: Path) -> CommandFailed:
    return CommandFailed(
        ExitCode.USAGE, f"{path} is a link, and Icecore does not follow links here: replace it with what it points to, or remove it"
    )
