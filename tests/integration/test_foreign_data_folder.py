"""A data folder that another account has prepared is refused, and no link in one is followed: root would overwrite any file."""

import base64
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icecore.data_folder import DataFolder
from icecore.embedded_postgres import EmbeddedPostgresError, embedded_postgres, server_account
from icecore.embedded_postgres.account import Account
from icecore.embedded_postgres.cluster import Cluster
from icecore.embedded_postgres.cluster_directories import ClusterDirectories, reachable_state_directory
from icecore.embedded_postgres.cluster_directories import _make_private as make_private
from icecore.embedded_postgres.postmaster import Postmaster, read_lock_file
from icecore.exit_codes import CommandFailed, ExitCode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of other accounts")

NOBODY = pwd.getpwnam("nobody").pw_uid
PRECIOUS = "root's own\n"
USED = ("secret.key", "served.at", "serving", "postgres.users", "postgres.lock", "postgres.location", "postgres", "warehouse")
OPENED = [DataFolder.make, DataFolder.existing, lambda path: DataFolder(path).running_server()]


def give(path: Path, user: int = NOBODY) -> None:
    os.chown(path, user, -1, follow_symlinks=False)


@pytest.fixture
def data(open_directory: Path) -> Path:
    """A data folder with a catalog, made by this account."""
    path = DataFolder.make(open_directory / "data").path
    (path / "postgres.users").touch(0o600)
    return path


@pytest.fixture
def precious(open_directory: Path) -> Path:
    path = open_directory / "precious"
    path.write_text(PRECIOUS)
    return path


@pytest.mark.parametrize("opened", OPENED, ids=["serve", "log", "health"])
@pytest.mark.parametrize("name", [".", *USED])
def test_what_another_account_made_is_refused(data: Path, opened: Callable[[Path], object], name: str) -> None:
    """The message names the path and the account, and says what to do."""
    if not (data / name).exists():
        (data / name).mkdir()
    give(data / name)
    with pytest.raises(CommandFailed, match=rf"{data / name} belongs to account nobody, .* run the command as that account") as refused:
        opened(data)
    assert ExitCode.USAGE == refused.value.code


def test_a_link_of_another_account_to_a_folder_of_ours_is_refused(data: Path) -> None:
    """For example `.icecore`, a link to /etc."""
    link = data.with_name("link")
    link.symlink_to(data)
    DataFolder.make(link)
    give(link)
    with pytest.raises(CommandFailed, match=f"{link} belongs to account nobody"):
        DataFolder.make(link)


@pytest.mark.parametrize("name", [name for name in USED if name != "warehouse"])
def test_a_link_is_refused_also_if_it_is_ours(data: Path, precious: Path, name: str) -> None:
    """It is never followed. The warehouse may be on another disk."""
    (data / name).unlink(missing_ok=True)
    (data / name).symlink_to(precious)
    with pytest.raises(CommandFailed, match=f"{data / name} is a link") as refused, DataFolder.make(data).claimed():
        pass
    assert ExitCode.USAGE == refused.value.code
    assert PRECIOUS == precious.read_text()


def test_the_warehouse_may_be_a_link_of_ours(data: Path, open_directory: Path) -> None:
    (open_directory / "disk").mkdir()
    (data / "warehouse").symlink_to(open_directory / "disk")
    DataFolder.make(data)
    give(open_directory / "disk")
    with pytest.raises(CommandFailed, match=f"{data / 'warehouse'} belongs to account nobody"):
        DataFolder.make(data)


def test_no_file_is_made_behind_a_link(data: Path) -> None:
    """`.gitignore` is the only file that may be a link."""
    (data / ".gitignore").unlink()
    (data / ".gitignore").symlink_to(data / "made")
    DataFolder.make(data)
    assert not (data / "made").exists()


@pytest.mark.parametrize("planted", ["link", "foreign", "pipe"])
def test_a_planted_key_is_not_used(data: Path, planted: str) -> None:
    """Also one that appears after the folder was checked, as in a folder that is open to all."""
    key, other = data / "secret.key", data / "other.key"
    other.write_bytes(base64.b64encode(bytes(32)))
    match planted:
        case "link":
            key.symlink_to(other)
        case "foreign":
            other.rename(key)
            give(key)
        case _:
            os.mkfifo(key)
    with pytest.raises(CommandFailed, match=str(key)) as refused:
        DataFolder(data).make_secret_key()
    assert ExitCode.USAGE == refused.value.code


def test_a_key_that_others_may_read_is_closed(data: Path) -> None:
    key = DataFolder(data).make_secret_key()
    key.chmod(0o644)
    DataFolder(data).make_secret_key()
    assert 0o600 == stat.S_IMODE(key.stat().st_mode)


@pytest.mark.parametrize("foreign", ["pointer", "cluster"])
def test_a_pointer_to_a_planted_cluster_is_refused(data: Path, open_directory: Path, precious: Path, foreign: str) -> None:
    """Neither its owner's account is used nor the file behind its link overwritten."""
    planted = open_directory / "planted"
    planted.mkdir()
    (planted / "data-folder").symlink_to(precious)
    (data / "postgres.location").write_text(f"{planted}\n")
    give(data / "postgres.location" if foreign == "pointer" else planted)
    with pytest.raises(CommandFailed, match="belongs to account nobody") as refused, embedded_postgres(data):
        pass
    assert ExitCode.USAGE == refused.value.code
    assert PRECIOUS == precious.read_text()


def test_a_cluster_of_another_account_in_the_folder_is_refused(data: Path) -> None:
    """Root would run Postgres as that account, on its configuration."""
    (data / "postgres" / "data").mkdir(parents=True)
    give(data / "postgres")
    with pytest.raises(CommandFailed, match=f"{data / 'postgres'} belongs to account nobody"), embedded_postgres(data):
        pass


@pytest.mark.parametrize("planted", ["symbolic", "hard"])
def test_the_way_back_to_a_moved_folder_is_written_beside_links(data: Path, open_directory: Path, precious: Path, planted: str) -> None:
    """The account of Postgres owns the cluster and may put a link there."""
    cluster = open_directory / "cluster"
    cluster.mkdir()
    give(cluster, server_account(data).user_id)
    back = cluster / "data-folder"
    back.symlink_to(precious) if planted == "symbolic" else back.hardlink_to(precious)
    (data / "postgres.location").write_text(f"{cluster}\n")
    if planted == "symbolic":
        with pytest.raises(CommandFailed, match=f"{back} is a link"):
            server_account(data)
    else:
        assert cluster.stat().st_uid == server_account(data).user_id
        assert f"{data}\n" == back.read_text()
    assert PRECIOUS == precious.read_text()


def test_a_folder_of_the_account_of_postgres_is_served_by_root(data: Path) -> None:
    """An operator may have given the whole folder to it."""
    for path in (data, *data.iterdir()):
        give(path, server_account(data).user_id)
    with DataFolder.make(data).claimed():
        DataFolder(data).make_secret_key()


def test_a_folder_of_root_is_served_by_another_account(open_directory: Path) -> None:
    """As a volume of Kubernetes, which belongs to root and is writable for a group of the process."""
    path = open_directory / "volume"
    path.mkdir()
    path.chmod(0o777)
    os.seteuid(NOBODY)
    try:
        with DataFolder.make(path).claimed():
            DataFolder(path).make_secret_key()
        with DataFolder.make(path).claimed():
            DataFolder(path).make_secret_key()
    finally:
        os.seteuid(0)


def test_a_cluster_of_root_names_its_account(data: Path) -> None:
    account = server_account(data).name
    (data / "postgres" / "data").mkdir(parents=True)
    with pytest.raises(EmbeddedPostgresError, match=f"change its owner to {account}"):
        server_account(data)


@pytest.mark.parametrize("planted", ["symbolic", "hard", "folder"])
def test_the_configuration_is_not_written_through_a_link(
    data: Path, open_directory: Path, precious: Path, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account of Postgres owns the new cluster, and may put a link there before root writes the configuration."""
    elsewhere = open_directory / "elsewhere"
    elsewhere.mkdir()
    other = elsewhere / "postgresql.conf"
    other.write_text(PRECIOUS)
    run = Account.run

    def planting(account: Account, command: list[str], **limits: Any) -> Any:
        ended = run(account, command, **limits)
        if "initdb" in command[0] and "-D" in command:
            unfinished = Path(command[command.index("-D") + 1])
            if planted == "folder":
                unfinished.rename(unfinished.with_name("aside"))
                unfinished.symlink_to(elsewhere)
            else:
                (unfinished / other.name).unlink()
                (unfinished / other.name).symlink_to(other) if planted == "symbolic" else (unfinished / other.name).hardlink_to(other)
        return ended

    monkeypatch.setattr(Account, "run", planting)
    with pytest.raises((CommandFailed, EmbeddedPostgresError), match=r"postgresql\.conf"), embedded_postgres(data):
        pass
    assert PRECIOUS == other.read_text()


def test_no_mode_is_set_through_a_link(data: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of Postgres may replace a folder of its own by a link while root closes it to others."""
    account, elsewhere, folder = server_account(data), open_directory / "elsewhere", open_directory / "cluster"
    elsewhere.mkdir(mode=0o755)
    folder.mkdir()
    give(folder, account.user_id)
    chown, fchown = os.chown, os.fchown

    def swap() -> None:
        folder.rmdir()
        folder.symlink_to(elsewhere)

    monkeypatch.setattr(os, "chown", lambda *given, **more: (chown(*given, **more), swap()))
    monkeypatch.setattr(os, "fchown", lambda *given: (fchown(*given), swap()))
    make_private(folder, account)
    assert folder.is_symlink()
    with pytest.raises(EmbeddedPostgresError, match=f"{folder} is not a folder of account {account.name}"):
        make_private(folder, account)
    assert (0, 0o755) == (elsewhere.stat().st_uid, stat.S_IMODE(elsewhere.stat().st_mode))


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_state_directory_that_others_may_change_is_refused(data: Path, open_directory: Path, mode: int) -> None:
    """They could replace the cluster, or the programs that the account of Postgres runs."""
    state = open_directory / "state"
    state.mkdir()
    state.chmod(mode)
    with pytest.raises(EmbeddedPostgresError, match=f"Other accounts may change {state}: .* set its mode to 0755"):
        reachable_state_directory(state, server_account(data))
    state.chmod(0o755)
    assert state == reachable_state_directory(state, server_account(data))
    give(state)
    with pytest.raises(CommandFailed, match="belongs to account nobody"):
        reachable_state_directory(state, server_account(data))


def test_a_file_of_any_size_is_not_read(data: Path) -> None:
    """The account of Postgres may make a file of a terabyte that takes no room on the disk."""
    with (data / "served.at").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CommandFailed, match=r"served\.at is larger than 65536 bytes"), DataFolder.make(data).claimed():
        pass


@pytest.mark.parametrize("planted", ["pipe", "large", "link"])
def test_a_planted_lock_file_of_postgres_holds_nothing_up(data: Path, precious: Path, planted: str) -> None:
    """It is in the folder of the account of Postgres. Root would wait for a writer of the pipe, or read a terabyte."""
    file = data / "postmaster.pid"
    match planted:
        case "pipe":
            os.mkfifo(file)
        case "large":
            file.write_text("1\n")
            os.truncate(file, 1 << 40)
        case _:
            precious.write_text("1\n\n\n\n/socket\n")
            file.symlink_to(precious)
    assert read_lock_file(file) in (None, Postmaster(1, ""))


@pytest.mark.parametrize("planted", ["pipe", "link", "large"])
def test_the_end_of_a_log_shows_no_file_of_root(data: Path, precious: Path, planted: str) -> None:
    """The message of a failed start has the last lines of the server's output."""
    cluster = Cluster(ClusterDirectories(data, data / "socket"), server_account(data), data)
    (data / "data").mkdir()
    log = data / "data" / "start.log"
    match planted:
        case "pipe":
            os.mkfifo(log)
        case "link":
            log.symlink_to(precious)
        case _:
            log.write_bytes(b"")
            os.truncate(log, 1 << 40)
            with log.open("ab") as file:
                file.write(b"the end")
    assert ("the end" if planted == "large" else "") == cluster._end_of_log().strip("\0")


def test_serve_ends_with_the_message(open_directory: Path, precious: Path) -> None:
    """In a folder that is open to all, with the default data folder planted there."""
    open_directory.chmod(0o1777)
    planted, cluster = open_directory / ".icecore", open_directory / "cluster"
    planted.mkdir()
    cluster.mkdir()
    (planted / "postgres.location").write_text(f"{cluster}\n")
    (cluster / "data-folder").symlink_to(precious)
    for path in (planted, *planted.iterdir(), cluster, *cluster.iterdir()):
        give(path)
    command = [sys.executable, "-P", "-m", "icecore", "serve", "--port", "0"]
    ended = subprocess.run(command, cwd=open_directory, capture_output=True, text=True, timeout=60)
    assert ExitCode.USAGE == ended.returncode
    assert "belongs to account nobody" in ended.stderr
    assert PRECIOUS == precious.read_text()
