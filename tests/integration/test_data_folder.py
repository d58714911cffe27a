"""The data folder is accessible only to its account: others can neither read it nor block a start or stop with its locks."""

import base64
import io
import json
import os
import pwd
import resource
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import structlog
from rich.console import Console

import icecore.embedded_postgres.server
from icecore.data_folder import SECRET_KEY_BYTES, DataFolder
from icecore.doctor import doctor
from icecore.embedded_postgres import DataFolderError, EmbeddedPostgresError, embedded_postgres
from icecore.embedded_postgres.server import start_again
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.lock_files import opened_lock_file
from icecore.log_database import opened_database
from icecore.settings import Settings

LOCKS = ("postgres.users", "postgres.lock", "serving")

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(path: Path, user: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Another process, optionally of another account, that holds the lock of a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        user=user,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.communicate("")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folder_and_locks_are_closed_to_others(open_directory: Path) -> None:
    """If the server runs as root, Postgres's group may enter the folder but not list it. Others have no access."""
    folder = DataFolder.make(open_directory / "data")
    with embedded_postgres(folder.path) as dsn, folder.claimed(), psycopg.connect(dsn) as connection:
        assert (1,) == connection.execute("SELECT 1").fetchone()
        assert (0o710 if os.geteuid() == 0 else 0o700) == mode(folder.path)
        assert {0o600} == {mode(folder.path / name) for name in LOCKS}
        assert (folder.path / "postgres" / "data").is_dir()
        # An account that can open a file can lock it.
        for name in LOCKS if os.geteuid() == 0 else ():
            with holding(folder.path / name, pwd.getpwnam("nobody").pw_uid) as process:
                _, errors = process.communicate("")
                assert "PermissionError" in errors


def test_the_key_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key its ciphertexts are lost, so the file and its folders are synced before it is used."""
    synced: list[int] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", recorded)
    file = DataFolder(tmp_path).make_secret_key()
    assert file.stat().st_ino == synced[0]
    assert {path.stat().st_ino for path in (tmp_path, tmp_path.parent)} < {*synced[1:]}


def test_of_two_that_make_the_key_both_have_one(open_directory: Path) -> None:
    """The second process uses the existing key. Other accounts cannot read it."""
    folder = DataFolder.make(open_directory / "data")
    ready = threading.Barrier(8)

    def made() -> bytes:
        ready.wait()
        return folder.make_secret_key().read_bytes()

    with ThreadPoolExecutor(8) as threads:
        keys = {made.result() for made in [threads.submit(made) for _ in range(8)]}
    assert {(folder.path / "secret.key").read_bytes()} == keys
    assert 0o600 == mode(folder.path / "secret.key")


def test_what_an_earlier_version_left_open_is_closed(open_directory: Path) -> None:
    """The folder and its lock files had the permissions of the umask."""
    path = open_directory / "data"
    path.mkdir(mode=0o755)
    for name in LOCKS:
        (path / name).touch(0o644)
    folder = DataFolder.make(path)
    with folder.claimed(), opened_lock_file(path / "postgres.users"):
        assert 0 == mode(path) & 0o007
        assert {0o600} == {mode(path / name) for name in ("serving", "postgres.users")}


def test_a_folder_with_other_things_in_it_keeps_its_rights(open_directory: Path) -> None:
    """It is not only ours."""
    path = open_directory / "data"
    path.mkdir(mode=0o755)
    (path / "of somebody").touch()
    DataFolder.make(path)
    assert 0o755 == mode(path)


def test_a_folder_that_is_open_to_all_keeps_its_rights(open_directory: Path) -> None:
    """As /tmp, which others use too, whatever has been served in it."""
    path = open_directory / "data"
    path.mkdir()
    path.chmod(0o1777)
    (path / "postgres.users").touch(0o600)
    DataFolder.make(path)
    assert 0o1777 == mode(path)


@pytest.mark.parametrize(("rights", "warns"), [(0o755, True), (0o701, True), (0o750, False), (0o700, False)])
def test_a_folder_that_others_may_enter_is_reported(open_directory: Path, rights: int, warns: bool) -> None:
    """If its mode is not changed, because it contains other things. A group may be meant to enter it."""
    path = open_directory / "data"
    path.mkdir()
    (path / "of somebody").touch()
    path.chmod(rights)
    with structlog.testing.capture_logs() as logs:
        DataFolder.make(path)
    reported = {
        "event": "data_folder_open_to_others",
        "log_level": "warning",
        "advice": "set mode 0700",
        "path": str(path),
        "mode": oct(rights),
    }
    assert ([reported] if warns else []) == logs
    assert rights == mode(path)


@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_at_another_path_is_not_served(open_directory: Path, moved: bool) -> None:
    """Tables contain the paths of their files. A copy would delete the original's, and those of a moved folder are missing."""
    path, elsewhere = open_directory / "data", open_directory / "elsewhere"
    DataFolder.make(path).write_path()
    if moved:
        path.rename(elsewhere)
    else:
        shutil.copytree(path, elsewhere)
    with pytest.raises(CommandFailed, match=f"was copied or moved from {path}") as refusal, DataFolder.make(elsewhere).claimed():
        pass
    assert ExitCode.USAGE == refusal.value.code
    if moved:
        path.symlink_to(elsewhere)
    else:
        (elsewhere / "served.at").unlink()
    with DataFolder.make(elsewhere).claimed():
        pass


@pytest.mark.parametrize("moved", [False, True])
def test_no_command_opens_a_folder_at_another_path(open_directory: Path, moved: bool) -> None:
    """A worker or a drop with `--purge` on a copy would delete the original's files. `icecore doctor` reports it."""
    path, elsewhere = open_directory / "data", open_directory / "elsewhere"
    DataFolder.make(path).write_path()
    (path / "postgres.users").touch(0o600)
    if moved:
        path.rename(elsewhere)
    else:
        shutil.copytree(path, elsewhere)
    settings = Settings(data_dir=elsewhere)
    for make in (False, True):
        with pytest.raises(CommandFailed, match=f"was copied or moved from {path}") as refusal, opened_database(settings, make=make):
            pass
        assert ExitCode.USAGE == refusal.value.code
    assert not (elsewhere / "postgres").exists()
    out = io.StringIO()
    assert ExitCode.NO == doctor(lambda: settings, Console(file=out), as_json=True)
    checks = json.loads(out.getvalue())
    assert [("settings", "ok"), ("data folder", "failed")] == [(check["name"], check["status"]) for check in checks]
    assert f"was copied or moved from {path}" in checks[-1]["message"]


@pytest.mark.parametrize("lost", ["postgres", "postgres/data", "what is in postgres/data", "what postgres.location names"])
def test_a_folder_that_lost_its_cluster_is_not_served_as_an_empty_catalog(open_directory: Path, lost: str) -> None:
    """The message says what to do. Nothing is created."""
    path, settings = open_directory / "data", Settings(data_dir=open_directory / "data")
    with opened_database(settings, make=True):
        pass
    cluster = path / "postgres"
    match lost:
        case "postgres":
            shutil.rmtree(cluster)
        case "postgres/data":
            shutil.rmtree(cluster / "data")
        case "what is in postgres/data":
            for each in (cluster / "data").iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        case _:
            cluster = (path / "postgres").rename(open_directory / "elsewhere")
            (path / "postgres.location").write_text(f"{cluster}\n")
            shutil.rmtree(cluster / "data")
    for make in (True, False):
        with (
            pytest.raises(CommandFailed, match=rf"{cluster}/data is missing, .*: restore .* or delete the rest of it") as refused,
            opened_database(settings, make=make),
        ):
            pass
        assert ExitCode.USAGE == refused.value.code
    assert not (cluster / "data" / "PG_VERSION").exists()


def test_a_first_start_that_was_killed_before_the_cluster_existed_is_repeated(open_directory: Path) -> None:
    """Files that it wrote before are no sign of a lost cluster."""
    path = open_directory / "data"
    with DataFolder.make(path).claimed(), pytest.raises(EmbeddedPostgresError), embedded_postgres(path, binaries=Path("/nonexistent")):
        pass
    with DataFolder.make(path).claimed(), opened_database(Settings(data_dir=path), make=True):
        assert (path / "postgres" / "data" / "PG_VERSION").exists()


def test_a_cluster_that_vanishes_while_it_is_used_is_not_replaced(open_directory: Path) -> None:
    """The watch of `icecore serve` starts the server again, and would go on with an empty catalog."""
    data = open_directory / "postgres" / "data"
    with embedded_postgres(open_directory):
        data.rename(open_directory / "lost")
        try:
            with pytest.raises(DataFolderError, match=rf"{data} is missing, .*: restore"):
                start_again(open_directory)
        finally:
            (open_directory / "lost").rename(data)


@pytest.mark.parametrize("name", ["data ", "dätá"])
def test_a_folder_of_any_name_is_served_again(open_directory: Path, name: str) -> None:
    """A space at the end belongs to the path. At another path it is refused as any other."""
    path = open_directory / name
    for _ in range(2):
        folder = DataFolder.make(path)
        with folder.claimed():
            folder.write_path()
    shutil.copytree(path, open_directory / "elsewhere")
    with pytest.raises(CommandFailed, match="was copied or moved from"), DataFolder.make(open_directory / "elsewhere").claimed():
        pass


def test_a_path_that_is_no_text_is_refused(open_directory: Path) -> None:
    """Postgres and clients could not use it."""
    with pytest.raises(CommandFailed, match="must be UTF-8 text") as refusal:
        DataFolder.make(open_directory / "data\udcff")
    assert ExitCode.USAGE == refusal.value.code
    assert [] == [*open_directory.iterdir()]


@contextmanager
def no_space() -> Iterator[None]:
    """Files can be created but not written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_could_not_be_written_is_not_there(open_directory: Path) -> None:
    """Later starts would refuse an empty file."""
    folder = DataFolder.make(open_directory / "data")
    with no_space(), pytest.raises(OSError, match="File too large"), folder.claimed():
        pass
    for write in (folder.make_secret_key, folder.write_path):
        with no_space(), pytest.raises(OSError, match="File too large"):
            write()
    with folder.claimed():
        folder.write_path()
        assert SECRET_KEY_BYTES == len(base64.b64decode(folder.make_secret_key().read_bytes()))
    assert {".gitignore", "secret.key", "served.at", "serving"} == {path.name for path in folder.path.iterdir()}


@pytest.mark.parametrize("found", [b"", bytes(20)])
def test_a_path_that_was_not_written_to_its_end_refuses_nothing(open_directory: Path, found: bytes) -> None:
    """A power failure may leave a file that was not synced incomplete."""
    folder = DataFolder.make(open_directory / "data")
    (folder.path / "served.at").write_bytes(found)
    with folder.claimed():
        folder.write_path()
        assert f"{folder.path}\n" == (folder.path / "served.at").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another account's rights")
def test_a_copy_of_a_folder_that_is_closed_to_this_account_is_refused(open_directory: Path) -> None:
    """As any copy, with a message."""
    path, elsewhere = open_directory / "closed" / "data", open_directory / "elsewhere"
    DataFolder.make(path).write_path()
    shutil.copytree(path, elsewhere)
    (open_directory / "closed").chmod(0o700)
    for copied in (elsewhere, *elsewhere.iterdir()):
        os.chown(copied, pwd.getpwnam("nobody").pw_uid, -1)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(CommandFailed, match="was copied or moved from"), DataFolder.make(elsewhere).claimed():
            pass
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another account's rights")
@pytest.mark.parametrize(
    "opened", [DataFolder.make, DataFolder.existing, lambda path: DataFolder(path).running_server()], ids=["serve", "log", "health"]
)
@pytest.mark.parametrize("closed", [".", ".."], ids=["the folder", "a folder above"])
def test_a_folder_of_another_account_is_refused_as_what_it_is(open_directory: Path, opened: Callable[[Path], object], closed: str) -> None:
    """The folder may exist, so it is not created."""
    path = open_directory / "above" / "data"
    with DataFolder.make(path).claimed():
        pass
    (path / closed).chmod(0o700)
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        with pytest.raises(
            CommandFailed, match=r"above/data is closed to this account: run the command as the account that serves it"
        ) as refused:
            opened(path)
        assert ExitCode.USAGE == refused.value.code
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("name", ["postgres.users", "postgres.lock"])
def test_a_lock_that_is_held_ends_with_a_reason(open_directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """For example by a hanging process. After a timeout, the message names the file and the process."""
    monkeypatch.setattr(icecore.embedded_postgres.server, "LOCK_SECONDS_MAX", 0.3)
    monkeypatch.setattr(icecore.embedded_postgres.server, "USE_SECONDS_MAX", 0.3)
    with (
        holding(open_directory / name) as holder,
        pytest.raises(EmbeddedPostgresError, match=rf"{name} was not free .*held by process {holder.pid} "),
        embedded_postgres(open_directory),
    ):
        pass


def test_whoever_holds_the_folder_is_named(open_directory: Path) -> None:
    """Also if it has not written its process id."""
    folder = DataFolder.make(open_directory)
    with (
        holding(folder.path / "serving") as holder,
        pytest.raises(CommandFailed, match=f"process {holder.pid}") as refusal,
        folder.claimed(),
    ):
        pass
    assert ExitCode.BUSY == refusal.value.code


def test_no_setting_makes_the_cluster_listen(open_directory: Path) -> None:
    """Neither ALTER SYSTEM nor the file, and no client address would be accepted."""
    with embedded_postgres(open_directory) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET listen_addresses = '127.0.0.1'")
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules WHERE type <> 'local'").fetchall()
    assert [("reject",)] == rules
    with (open_directory / "postgres" / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write("listen_addresses = '127.0.0.1'\n")
    with embedded_postgres(open_directory) as dsn, psycopg.connect(dsn) as connection:
        assert ("",) == connection.execute("SHOW listen_addresses").fetchone()
