"""The folder of a cluster and its owner. Icecore opens no folder of another account.

Under root the server runs as an unprivileged account, which must be able to reach the cluster. If it cannot enter a folder above the data
folder, the cluster is created in the system's state folder, and the data folder contains a pointer to it.
"""

import hashlib
import os
import re
import secrets
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..owned_files import account_name, close_to_others, read_owned, refuse_foreign, write_owned
from .account import Account, account_of, own_account, unprivileged_account
from .errors import DataFolderError, EmbeddedPostgresError

STATE_DIRECTORY = Path("/var/lib/icecore")
SOCKET_PATH_BYTES_MAX = 103
"""The longest path in sockaddr_un is 107 bytes on Linux and 103 on macOS."""
_POINTER = "postgres.location"
_BACK_POINTER = "data-folder"


@dataclass(frozen=True, slots=True)
class ClusterDirectories:
    """The folder of one cluster, owned by its account and closed to others. `socket` is a different folder only if the path would be too
    long.
    """

    root: Path
    socket: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    def make_socket_directory(self, account: Account) -> None:
        """Creates the socket's folder. Refuses an existing folder of another account."""
        _make_private(self.socket, account)


def server_account(directory: Path) -> Account:
    """The account of the server of the data folder `directory`.

    It is the owner of an existing cluster. For a new one it is the account of this process, or, if that is root, `postgres` if the system
    has it and otherwise a system account created for Icecore.
    """
    root = existing_root(directory)
    owner = None if root is None else root.lstat().st_uid
    if os.geteuid() != 0:
        if owner is not None and owner != os.geteuid():
            raise EmbeddedPostgresError(f"The cluster {root} belongs to account {account_name(owner)}; run Icecore as that account")
        return own_account()
    if owner is None:
        return unprivileged_account()
    if owner == 0:
        raise EmbeddedPostgresError(
            f"The cluster {root} belongs to root, and Postgres does not run as root: change its owner to {unprivileged_account().name}"
        )
    return account_of(owner)


def cluster_directories(directory: Path, account: Account, state_directory: Path = STATE_DIRECTORY) -> ClusterDirectories:
    """The cluster folder of the data folder `directory`. It is created if it does not exist, at a path that the account can reach."""
    root = existing_root(directory)
    if root is None:
        root = _new_root(directory, account, state_directory)
    elif not account.may_traverse(root):
        raise EmbeddedPostgresError(f"Account {account.name} can no longer reach {root}: a folder above it is closed to others")
    _make_private(root, account)
    socket = root / "socket"
    if not _socket_path_fits(socket):
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:16]
        socket = Path(tempfile.gettempdir()) / f"icecore-{account.user_id}-{digest}"
    return ClusterDirectories(root, socket)


def existing_root(directory: Path) -> Path | None:
    """The cluster folder of the data folder `directory`; None if there is none yet. One that another account made is refused."""
    pointer = directory / _POINTER
    written = read_owned(pointer)
    if written is None:
        inside = directory / "postgres"
        refuse_foreign(inside)
        return inside if (inside / "data").exists() else None
    root = Path(os.fsdecode(written).strip())
    if not root.is_absolute() or b"\0" in written:
        raise DataFolderError(f"{pointer} does not contain a path: restore it from a backup")
    if not root.is_dir():
        raise EmbeddedPostgresError(
            f"{pointer} points to {root}, which does not exist; restore it, or delete the pointer to start with an empty log"
        )
    refuse_foreign(root)
    _check_owner(directory, root)
    return root


def _check_owner(directory: Path, root: Path) -> None:
    """A data folder that was moved keeps its cluster. A copied one is refused, because it would write to the original's cluster."""
    back_pointer = root / _BACK_POINTER
    written = read_owned(back_pointer)
    if written is None:
        return
    owner = Path(os.fsdecode(written).strip())
    if owner == directory:
        return
    if (owner / _POINTER).exists():
        raise EmbeddedPostgresError(f"{directory} is a copy of {owner}: both point to the cluster {root}. Remove {directory / _POINTER}")
    _write_path(back_pointer, directory)


def _write_path(file: Path, path: Path) -> None:
    write_owned(file, f"{path}\n".encode(), replace=True)


def _new_root(directory: Path, account: Account, state_directory: Path) -> Path:
    inside = directory / "postgres"
    if account.may_traverse(directory) and (not account.switch or _socket_path_fits(inside / "socket")):
        return inside
    readable = re.sub(r"[^A-Za-z0-9_-]", "-", directory.name)[:24]
    root = reachable_state_directory(state_directory, account) / f"{readable}-{secrets.token_hex(4)}"
    _make_private(root, account)
    _write_path(root / _BACK_POINTER, directory)
    _write_path(directory / _POINTER, root)
    return root


def reachable_state_directory(state_directory: Path, account: Account) -> Path:
    """Returns `state_directory` and creates it if needed. Raises EmbeddedPostgresError if the account cannot reach it or others may change
    it, and CommandFailed if another account made it: they could replace the cluster, or the programs of Postgres.
    """
    if not state_directory.exists():
        state_directory.mkdir(parents=True)
        state_directory.chmod(0o755)
    refuse_foreign(state_directory)
    if state_directory.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedPostgresError(
            f"Other accounts may change {state_directory}: make sure that its content is yours, then set its mode to 0755"
        )
    if not account.may_traverse(state_directory):
        raise EmbeddedPostgresError(
            f"Account {account.name} cannot reach {state_directory}; use a data folder whose parent folders it can enter"
        )
    return state_directory


def _make_private(directory: Path, account: Account) -> None:
    """Creates `directory`, accessible only to the account; its parent exists. An existing folder must belong to the account and not be a
    link.
    """
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    try:
        # The account may own the folder above, and put a link in its place at any time.
        close_to_others(directory, account.user_id, account.group_id if account.switch else None)
    except OSError:
        raise EmbeddedPostgresError(f"{directory} is not a folder of account {account.name}") from None


def _socket_path_fits(socket_directory: Path) -> bool:
    return len(os.fsencode(socket_directory / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES_MAX
