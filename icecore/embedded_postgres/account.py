"""The operating system account of the embedded Postgres, which is never root."""

# ruff: noqa: S603 - every program started here is named by us, without a shell

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..owned_files import POSTGRES_ACCOUNTS, account_name
from .errors import EmbeddedPostgresError

ACCOUNT_CREATED = POSTGRES_ACCOUNTS[-1]


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account of the server. `switch` -- it is not the account of this process."""

    name: str
    user_id: int
    group_id: int
    switch: bool

    def run(self, command: list[str], *, seconds_max: float) -> subprocess.CompletedProcess[str]:
        """Runs `command` as this account with a minimal environment, without PG… variables and secrets."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
        try:
            with subprocess.Popen(
                command,
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                user=self.user_id if self.switch else None,
                group=self.group_id if self.switch else None,
                extra_groups=[] if self.switch else None,
                # Ctrl-C at a terminal reaches its whole group.
                start_new_session=True,
            ) as process:
                return _ended(process, seconds_max)
        except (OSError, subprocess.TimeoutExpired) as error:
            return subprocess.CompletedProcess(command, 126, "", str(error))

    def may_traverse(self, directory: Path) -> bool:
        """Whether this account may enter `directory` and every folder above it, according to owner, group and mode."""
        if not self.switch:
            return True
        return all(self._may_pass(above.stat()) for above in [directory, *directory.parents])

    def _may_pass(self, status: os.stat_result) -> bool:
        if status.st_uid == self.user_id:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.group_id:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def _ended(process: subprocess.Popen[str], seconds_max: float) -> subprocess.CompletedProcess[str]:
    """Waits for the end of a program, also if a signal interrupts the wait: a killed `pg_ctl start` leaves a server that nobody stops."""
    try:
        output, errors = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    except BaseException:
        process.communicate(timeout=seconds_max)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def own_account() -> Account:
    """The account of this process."""
    return Account(account_name(os.geteuid()), os.geteuid(), os.getegid(), switch=False)


def account_of(user_id: int) -> Account:
    """Another account. Only for a process of root."""
    return _switched(pwd.getpwuid(user_id))


def unprivileged_account() -> Account:
    """For a process of root: `postgres` if the system has it, else an account created for Icecore."""
    return _switched(_unprivileged_entry())


def _switched(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _unprivileged_entry() -> pwd.struct_passwd:
    for name in POSTGRES_ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        raise EmbeddedPostgresError(f"Postgres does not run as root, and useradd is not installed: create the account {ACCOUNT_CREATED}")
    command = [useradd, "--system", "--no-create-home", "--home-dir", "/nonexistent", ACCOUNT_CREATED]
    subprocess.run(command, check=True, capture_output=True)
    return pwd.getpwnam(ACCOUNT_CREATED)
