"""A command that is stopped by SIGTERM or SIGHUP closes what it opened: its Postgres is stopped, and its objects are deleted."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from icecore.embedded_postgres import embedded_postgres
from tests.fixtures.data_folders import make_data_folder
from tests.fixtures.lossy_store_proxy import LossyStoreProxy
from tests.fixtures.object_stores import S3_CREDENTIAL, OpenedStore, S3Server, files_below
from tests.fixtures.waiting import wait_for
from tests.integration.test_program import CHECKOUT, command, icecore, is_alive, postgres_runs, postmaster
from tests.servers.icecore import open_directory

COMMANDS = (["verify"], ["rebuild"], ["migrate"], ["log"], ["sinks"], ["doctor"], ["warehouse", "list"])


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data folder with an empty log."""
    with open_directory() as directory:
        folder = directory / "data"
        yield make_data_folder(folder)


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    """A data folder whose Postgres does not run."""
    yield made
    if postgres_runs(made):
        icecore("migrate", "--data", str(made))


@pytest.fixture(autouse=True)
def signals_of_a_terminal() -> Iterator[None]:
    """Commands inherit ignored signals, and a test run in the background ignores these two."""
    former = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    former = {number: signal.signal(number, handler) for number, handler in former.items()}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


def start(data: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments, "--data", str(data)),
        cwd=CHECKOUT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def waiting(data: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for a lock in the database, and is the last user of its Postgres."""
    with ExitStack() as left:
        with embedded_postgres(data) as dsn:
            holder = left.enter_context(closing(psycopg.connect(dsn)))
            holder.execute("lock table icecore.migrations, icecore.events")
            process = left.enter_context(start(data, *arguments))
            left.callback(process.kill)
            with psycopg.connect(dsn, autocommit=True) as connection:
                blocked = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')"
                wait_for(lambda: connection.execute(blocked).fetchone() == (True,))
        assert postgres_runs(data)
        yield process


@pytest.mark.parametrize(
    ("arguments", "number"), [*((each, signal.SIGTERM) for each in COMMANDS), (COMMANDS[0], signal.SIGHUP)], ids=lambda each: str(each)
)
def test_a_stopped_command_stops_its_postgres(data: Path, arguments: list[str], number: signal.Signals) -> None:
    """The exit code names the signal, and there is no trace."""
    with waiting(data, *arguments) as process:
        server = postmaster(data)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=60)
    assert (128 + number, "") == (process.returncode, errors)
    assert not postgres_runs(data)
    assert not is_alive(server)


def test_a_second_signal_does_not_interrupt_the_stop(data: Path) -> None:
    """`timeout` sends SIGTERM to the command and then to its group."""
    with waiting(data, "verify") as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert 128 + signal.SIGTERM == process.returncode
    assert not postgres_runs(data)


def test_a_closed_terminal_does_not_stop_a_command_of_nohup(data: Path) -> None:
    """SIGHUP stays ignored."""
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with waiting(data, "verify") as process:
            process.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    finally:
        signal.signal(signal.SIGHUP, former)
    assert 128 + signal.SIGTERM == process.returncode


@pytest.mark.parametrize("name", ["serve", "verify"])
def test_a_command_that_is_stopped_while_postgres_starts_leaves_none(data: Path, name: str) -> None:
    """Nor does Ctrl-C at a terminal, which reaches the whole process group."""
    begun = data / "postgres" / "data" / "start.log"
    for number, group in ((signal.SIGTERM, False), (signal.SIGINT, True)):
        begun.unlink()
        process = start(data, name, ICECORE_PORT="0")
        wait_for(begun.exists)
        (os.killpg if group else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=60)
        assert 128 + number == process.returncode
        assert "Traceback" not in errors
        assert not postgres_runs(data)


def test_a_stopped_create_deletes_its_check_object(data: Path, s3_server: S3Server, s3_store: OpenedStore) -> None:
    """It waits for the response of a store that already has the object."""
    with contextlib.closing(LossyStoreProxy(s3_server.endpoint)) as proxy:
        proxy.hangs_at = "GET"
        given = json.dumps(s3_store.profile.to_json() | {"endpoint": proxy.endpoint, "allowed-locations": []})
        process = start(data, "warehouse", "create", "w", "--profile", given, "--credential", json.dumps(S3_CREDENTIAL))
        with process:
            assert proxy.reached.wait(60)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
    assert 128 + signal.SIGTERM == process.returncode, errors
    assert not postgres_runs(data)
    assert set() == files_below(s3_store, s3_store.profile.base)
