"""The program as users run it: `icecore` in separate processes, on an embedded or an external Postgres."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from icecore.data_folder import DataFolder
from icecore.exit_codes import ExitCode
from icecore.migrations.apply import load_migrations
from tests.fixtures.operator_commands import icecore_with, operator_on
from tests.fixtures.waiting import wait_for
from tests.servers.icecore import open_directory as new_directory
from tests.servers.processes import free_port, responds, running

CHECKOUT = Path(__file__).parents[2]
START_SECONDS_MAX = 60


def icecore(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs one command."""
    return subprocess.run(
        command(*arguments), cwd=CHECKOUT, env=os.environ | environment, input=stdin, capture_output=True, text=True, timeout=120
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "icecore", *arguments]


@dataclass
class Served:
    """A running `icecore serve`."""

    process: subprocess.Popen[str]
    data: Path
    log: Path
    url: str = ""

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as response:
            return json.loads(response.read())

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def prefix(self) -> str:
        return "/catalog/v1/" + str(self.get("/catalog/v1/config?warehouse=demo")["overrides"]["prefix"])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def records(self) -> list[dict[str, Any]]:
        """Its log records, with ICECORE_LOG_FORMAT=json."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


Serve = Callable[..., Served]


@contextmanager
def starting(open_directory: Path) -> Iterator[Serve]:
    """Starts servers on a free port and waits until they respond. Ends those that still run."""
    started: list[Served] = []

    def start(*arguments: str, data: Path | None = None, directory: Path = CHECKOUT, **environment: str) -> Served:
        folder = data or open_directory / "data"
        log = open_directory / f"serve-{len(started)}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                command("serve", "--data", str(folder), "--port", "0", *arguments),
                cwd=directory,
                env=os.environ | {"ICECORE_LOG_FORMAT": "json"} | environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        served = Served(process, folder, log)
        started.append(served)
        wait_for(lambda: process.poll() is not None or address(folder) is not None)
        assert process.poll() is None, log.read_text()
        served.url = str(address(folder))
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.stop()
        if served.process.stdout is not None:
            served.process.stdout.close()
    for data in {served.data for served in started}:
        # A killed server leaves Postgres running. The next user stops it.
        if postgres_runs(data):
            icecore_with({}, "migrate", "--data", str(data))


@pytest.fixture
def serve(open_directory: Path) -> Iterator[Serve]:
    """Servers of one test."""
    with starting(open_directory) as start:
        yield start


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Served]:
    """A server with two workers, which ends as it should after what the tests did."""
    with new_directory() as directory, starting(directory) as start:
        served = start("--workers", "2")
        yield served
        assert 0 == served.stop()


def address(data: Path) -> str | None:
    server = DataFolder(data).running_server()
    return server.url if server else None


def postmaster(data: Path) -> int:
    return int((data / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0])


def answered(served: Served, path: str, body: Any) -> int:
    try:
        served.post(path, body)
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code
    return 200


def names(served: Served, path: str) -> Any:
    try:
        return served.get(path)["namespaces"]
    except urllib.error.HTTPError as error:
        error.close()
        return None


def postgres_runs(data: Path) -> bool:
    return (data / "postgres" / "data" / "postmaster.pid").exists()


# The embedded Postgres


def test_serve_with_a_folder_and_a_port_is_a_whole_catalog(serve: Serve) -> None:
    """Postgres and the warehouse demo are created in the folder, and the welcome message has examples. SIGTERM ends it with exit code 0,
    and no process is left.
    """
    served = serve()
    assert "ok" == served.get("/health")["status"]
    assert {"namespaces": []}.items() <= served.get(f"{served.prefix()}/namespaces").items()
    assert {".gitignore", "postgres", "secret.key", "warehouse"} <= {path.name for path in served.data.iterdir()}
    assert 0o600 == (served.data / "secret.key").stat().st_mode & 0o777
    warned = [record["event"] for record in served.records() if record["level"] == "warning" and record["event"] == "running_as_root"]
    assert (1 if os.geteuid() == 0 else 0) == len(warned)
    assert postgres_runs(served.data)
    assert 0 == served.stop()
    assert not postgres_runs(served.data)
    assert served.process.stdout is not None
    said = served.process.stdout.read()
    assert f"{served.url}/catalog" in said
    assert 'load_catalog("icecore", type="rest"' in said
    assert f"spark.sql.catalog.icecore.uri={served.url}/catalog" in said


def test_ctrl_c_stops_the_server_and_its_postgres_with_exit_code_0(serve: Serve) -> None:
    """No process is left."""
    served = serve()
    assert postgres_runs(served.data)
    assert 0 == served.stop(signal.SIGINT)
    assert not postgres_runs(served.data)


def test_what_was_made_is_there_after_a_stop_and_after_a_kill(serve: Serve) -> None:
    """kill -9 skips the cleanup, which is not needed. The warehouse demo is created once."""
    first = serve()
    prefix = first.prefix()
    first.post(f"{prefix}/namespaces", {"namespace": ["before_stop"]})
    assert 0 == first.stop()
    second = serve()
    assert prefix == second.prefix()
    second.post(f"{prefix}/namespaces", {"namespace": ["before_kill"]})
    second.process.kill()
    second.process.wait()
    third = serve()
    assert [["before_kill"], ["before_stop"]] == third.get(f"{prefix}/namespaces")["namespaces"]
    assert 0 == icecore_with({}, "verify", "--data", str(third.data)).returncode


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_request_in_flight_is_answered_before_the_server_ends(serve: Serve, workers: str) -> None:
    """Otherwise the outcome of a commit would be unknown."""
    served = serve("--workers", workers)
    body = json.dumps({"namespace": ["late"]}).encode()
    with closing(connection(served)) as client:
        client.putrequest("POST", f"{served.prefix()}/namespaces")
        client.putheader("Content-Type", "application/json")
        client.putheader("Content-Length", str(len(body)))
        client.endheaders(body[:5])
        time.sleep(0.5)
        served.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not accepts(served.url))
        client.send(body[5:])
        response = client.getresponse()
        assert 200 == response.status
        # Its next request would fail.
        assert "close" == response.getheader("Connection")
    assert 0 == served.process.wait(30)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_requests_sent_before_a_stop_are_answered_although_the_server_had_not_read_them(serve: Serve, workers: str) -> None:
    """On idle connections, and on new ones that were not accepted yet."""
    served = serve("--workers", workers)
    with ExitStack() as opened:
        idle = [opened.enter_context(closing(connection(served))) for _ in range(16)]
        for each in idle:
            each.request("GET", "/health")
            assert b"ok" in each.getresponse().read()
        serving = worker_processes(served) or {served.process.pid}
        assert int(workers) == len(serving)
        for worker in serving:
            os.kill(worker, signal.SIGSTOP)
        new = [opened.enter_context(closing(connection(served))) for _ in range(16)]
        for each in (*idle, *new):
            each.request("GET", "/health")
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        for worker in serving:
            os.kill(worker, signal.SIGCONT)
        assert [200] * 32 == [each.getresponse().status for each in (*idle, *new)]
    assert 0 == served.process.wait(30)


def test_a_response_that_is_read_slowly_is_sent_whole(serve: Serve) -> None:
    """The grace applies to responses too."""
    served = serve()
    properties = {f"p{number}": "x" * 60_000 for number in range(270)}
    made = {"namespace": ["wide"], "properties": properties}
    served.post(f"{served.prefix()}/namespaces", made)
    with closing(connection(served)) as client:
        client.request("GET", f"{served.prefix()}/namespaces/wide")
        time.sleep(0.5)
        served.process.send_signal(signal.SIGTERM)
        time.sleep(2.5)
        loaded = json.loads(client.getresponse().read())
        assert loaded["properties"].pop("location")
        assert made == loaded
    assert 0 == served.process.wait(30)


def test_a_body_that_makes_no_progress_does_not_hold_a_server_that_ends(serve: Serve) -> None:
    """It is answered 408 long before the end of the grace. Arriving bodies are waited for."""
    served = serve(ICECORE_SHUTDOWN_GRACE_SECONDS="60")
    with closing(connection(served)) as stalled:
        stalled.putrequest("POST", f"{served.prefix()}/namespaces")
        stalled.putheader("Content-Type", "application/json")
        stalled.putheader("Content-Length", "1000")
        stalled.endheaders(b"{")
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        response = stalled.getresponse()
        assert (408, "close") == (response.status, response.getheader("Connection"))
    assert 0 == served.process.wait(30)
    assert time.monotonic() - began < 30


def test_requests_that_outlast_the_grace_do_not_hold_the_server(serve: Serve) -> None:
    """The grace is a limit, and the log reports when it is exceeded."""
    served = serve(ICECORE_SHUTDOWN_GRACE_SECONDS="1")
    with closing(connection(served)) as client:
        client.putrequest("POST", f"{served.prefix()}/namespaces")
        client.putheader("Content-Type", "application/json")
        client.putheader("Content-Length", "1000")
        client.endheaders(b"{")
        time.sleep(0.5)
        assert 0 == served.stop()
    assert "requests_cut_off" in [record["event"] for record in served.records()]


def connection(served: Served) -> http.client.HTTPConnection:
    parts = urlsplit(served.url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)


def status_for(served: Served, host: str, address: str = "127.0.0.1") -> int:
    """The status of a response to a request for `host`."""
    with closing(http.client.HTTPConnection(address, urlsplit(served.url).port, timeout=30)) as client:
        client.request("GET", "/health", headers={"Host": host})
        return client.getresponse().status


def accepts(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: the last listener closed with the connection in its queue
        return False
    return True


# Ports and folders in use, and refused settings


def test_a_killed_postgres_is_started_again(serve: Serve) -> None:
    """By the server itself. Committed data is there, and commits continue."""
    served = serve("--workers", "2")
    namespaces = f"{served.prefix()}/namespaces"
    served.post(namespaces, {"namespace": ["before"]})
    os.kill(postmaster(served.data), signal.SIGKILL)
    wait_for(lambda: answered(served, namespaces, {"namespace": ["after"]}) in (200, 409))
    # Several connections reach every worker.
    wait_for(lambda: all([["after"], ["before"]] == names(served, namespaces) for _ in range(8)))
    assert served.process.poll() is None
    assert 0 == served.stop()


def test_a_postgres_that_does_not_start_again_ends_the_server(serve: Serve) -> None:
    """After a limited number of restarts, of which one succeeded, with the reason and the exit code for the database."""
    served = serve()
    prefix = served.prefix()
    os.kill(postmaster(served.data), signal.SIGKILL)
    wait_for(lambda: "embedded_postgres_restarting" in served.log.read_text())
    wait_for(lambda: answered(served, f"{prefix}/namespaces", {"namespace": ["after"]}) in (200, 409))
    with (served.data / "postgres" / "data" / "postgresql.conf").open("a") as configuration:
        configuration.write("no such setting = 1\n")
    os.kill(postmaster(served.data), signal.SIGKILL)
    assert ExitCode.DATABASE == served.process.wait(240)
    assert "The embedded Postgres died, and 6 restarts failed" in served.log.read_text()
    assert 6 == sum("embedded_postgres_restarting" in line for line in served.log.read_text().splitlines())
    # So that the cleanup after the test finds a valid cluster.
    (served.data / "postgres" / "data" / "postmaster.pid").unlink(missing_ok=True)


def test_a_second_server_on_the_same_folder_is_refused(serve: Serve) -> None:
    """With the address of the first, also if its port is wanted too."""
    served = serve()
    for port in ("0", served.url.rpartition(":")[2]):
        second = icecore("serve", "--data", str(served.data), "--port", port)
        assert ExitCode.BUSY == second.returncode
        assert served.url in second.stderr
        assert str(served.process.pid) in second.stderr


def test_a_busy_port_is_refused_before_anything_is_started(open_directory: Path) -> None:
    """No data folder is created."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = icecore("serve", "--data", str(open_directory / "data"), "--port", port)
    assert ExitCode.BUSY == refused.returncode
    assert f"Port {port} on 127.0.0.1 is in use" in refused.stderr
    assert "with --port" in refused.stderr
    assert not (open_directory / "data").exists()


def test_a_busy_port_of_metrics_is_refused_before_anything_is_started(open_directory: Path) -> None:
    """Also for the second worker's port, with the name of the setting."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("serve", "--data", str(open_directory / "data"), "--port", "0", "--workers", "2")
        refused = icecore_with({"ICECORE_METRICS_PORT": str(port)}, *arguments)
    assert ExitCode.BUSY == refused.returncode
    assert f"Port {port} on 127.0.0.1 is in use" in refused.stderr
    assert "with ICECORE_METRICS_PORT" in refused.stderr
    assert not (open_directory / "data").exists()


def test_an_address_of_the_network_needs_insecure(open_directory: Path, serve: Serve) -> None:
    """Without authentication the default is loopback."""
    refused = icecore_with({}, "serve", "--data", str(open_directory / "data"), "--host", "0.0.0.0")
    assert ExitCode.USAGE == refused.returncode
    assert "--insecure" in refused.stderr
    nameless = icecore_with({}, "serve", "--data", str(open_directory / "data"), "--host", "0.0.0.0", "--insecure")
    assert ExitCode.USAGE == nameless.returncode
    assert "ICECORE_ALLOWED_HOSTS" in nameless.stderr
    served = serve("--host", "0.0.0.0", "--insecure", "--allowed-hosts", "catalog")
    assert "ok" == served.get("/health")["status"]
    port = urlsplit(served.url).port
    addresses = {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET, socket.SOCK_STREAM)}
    for address in addresses:
        assert 200 == status_for(served, f"{address}:{port}", address)
    assert 200 == status_for(served, "catalog")
    assert 403 == status_for(served, "another")


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["serve", "--port", "x"], {}, "--port"),
        (["serve", "--port", "65536"], {}, "--port: must be at most 65535"),
        (["serve"], {"ICECORE_PORT": "65536"}, "ICECORE_PORT: must be at most 65535"),
        (["serve", "--data", "pyproject.toml"], {}, "pyproject.toml cannot be created: a file has that name"),
        (["serve", "--data", "pyproject.toml/data"], {}, "cannot be created: a file has that name"),
        (["verify", "--data", "pyproject.toml"], {}, "pyproject.toml is a file"),
        (["serve"], {"ICECORE_PROT": "1"}, "did you mean ICECORE_PORT"),
        (["serve", "--data", "x"], {"ICECORE_DATABASE_URL": "postgresql://h/d"}, "use one of them"),
        (["warehouse", "create", "w", "--profile", "{"], {}, "--profile is not JSON"),
        (["warehouse", "create", "w", "--profile", "{}", "--credential", '@{"key": "hunter2"}'], {}, "--credential cannot be read"),
        (["log", "--from", "0"], {}, "must be a position of at least 1"),
        (["verify", "--data", "no-such-folder"], {}, "contains no catalog"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_a_reason(
    arguments: list[str], environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And creates nothing."""
    monkeypatch.chdir(CHECKOUT)
    refused = icecore_with(environment, *arguments)
    assert ExitCode.USAGE == refused.returncode, refused.stderr
    assert said in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
    assert "hunter2" not in refused.stderr + refused.stdout
    for folder in ("no-such-folder", "x"):
        assert not (CHECKOUT / folder).exists()


def test_a_wrong_command_ends_its_process_with_2_and_a_reason() -> None:
    """With the command that is meant."""
    refused = icecore("sevre")
    assert (ExitCode.USAGE, "") == (refused.returncode, refused.stdout)
    assert "serve" in refused.stderr
    assert "Traceback" not in refused.stderr


# An external database


@pytest.fixture
def own(database: str) -> dict[str, str]:
    """The environment of a server on an external database."""
    return {"ICECORE_DATABASE_URL": database, "ICECORE_SECRET_KEY": base64.b64encode(b"k" * 32).decode()}


def test_a_database_that_cannot_be_reached_ends_with_3() -> None:
    """The message says so without the password."""
    failed = icecore("migrate", ICECORE_DATABASE_URL="postgresql://icecore:hunter2@127.0.0.1:1/icecore")
    assert ExitCode.DATABASE == failed.returncode
    assert "cannot be reached" in failed.stderr
    assert "hunter2" not in failed.stderr + failed.stdout


def test_a_newer_database_ends_with_3(own: dict[str, str], database: str) -> None:
    """An older program must not change a newer schema."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO icecore.migrations (number, name, checksum, functions) VALUES (9999, 'future', 'x', 'x')")
    for refused in (icecore_with(own, "migrate"), icecore_with(own, "verify"), icecore("serve", "--port", "0", **own)):
        assert ExitCode.DATABASE == refused.returncode
        assert "database is newer than this Icecore: it has migration 9999_future" in refused.stderr


def test_a_database_that_can_lose_commits_ends_with_3(own: dict[str, str], database: str) -> None:
    """P1: such a server does not start."""
    weak = psycopg.conninfo.make_conninfo(database, options="-c synchronous_commit=off")
    refused = icecore("serve", "--port", "0", **own | {"ICECORE_DATABASE_URL": weak})
    assert ExitCode.DATABASE == refused.returncode
    assert "synchronous_commit is off" in refused.stderr


def test_questions_and_read_only_servers_do_not_migrate(own: dict[str, str], empty_database: str) -> None:
    """Only `migrate` and a server that writes do."""
    own = own | {"ICECORE_DATABASE_URL": empty_database}
    for refused in (
        icecore_with(own, "verify"),
        icecore_with(own, "warehouse", "config", "demo"),
        icecore("serve", "--port", "0", **own, ICECORE_READ_ONLY="true"),
    ):
        assert ExitCode.DATABASE == refused.returncode
        assert "run `icecore migrate` first" in refused.stderr


def test_a_database_is_migrated_by_migrate(empty_database: str) -> None:
    """It prints the migrations that it applied."""
    operator = operator_on(empty_database)
    assert [f"applied {migration}" for migration in load_migrations()] == operator("migrate")[1].splitlines()
    assert 0 == operator("verify")[0]


def test_a_server_of_one_s_own_database_needs_a_key(database: str) -> None:
    """All servers of one log need the same key, so none is created."""
    refused = icecore("serve", "--port", "0", ICECORE_DATABASE_URL=database)
    assert ExitCode.USAGE == refused.returncode
    assert "ICECORE_SECRET_KEY_FILE" in refused.stderr


def test_warehouses_are_made_and_listed_without_their_credentials(own: dict[str, str], tmp_path: Path) -> None:
    """A credential is read from a file or standard input, and never shown."""
    own = own | {"ICECORE_SKIP_STORAGE_VALIDATION": "true"}
    profile = {"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False, "flavor": "aws"}
    secret = {"type": "s3", "credential-type": "access-key", "aws-access-key-id": "AKIA0", "aws-secret-access-key": "hunter2"}
    (tmp_path / "credential.json").write_text(json.dumps(secret))
    arguments = ["warehouse", "create", "lake", "--profile", json.dumps(profile), "--credential", f"@{tmp_path}/credential.json"]
    other = json.dumps(profile | {"bucket": "other"})
    piped = icecore("warehouse", "create", "other", "--profile", other, "--credential", "-", stdin=json.dumps(secret), **own)
    assert 0 == piped.returncode, piped.stderr
    made = icecore_with(own, *arguments)
    assert 0 == made.returncode, made.stderr
    listed = icecore_with(own, "warehouse", "list", "--json")
    ids = [(json.loads(each.stdout)["warehouse-id"], name) for each, name in ((piped, "other"), (made, "lake"))]
    assert ids == [(each["id"], each["name"]) for each in json.loads(listed.stdout)]
    table = icecore_with(own, "warehouse", "list")
    rows = [[name, warehouse_id, "active", f"s3://{name}"] for warehouse_id, name in ids]
    assert ["other", "lake"] == [name for name, *_ in rows]
    assert rows == [line.split() for line in table.stdout.splitlines()[1:]]
    again = icecore_with(own, *arguments)
    assert ExitCode.NO == again.returncode
    assert "Warehouse already exists: " in again.stderr
    log = icecore_with(own, "log", "--json")
    for said in (piped, made, listed, table, again, log):
        assert "hunter2" not in said.stdout + said.stderr


def test_verify_ends_with_1_where_a_read_model_was_changed(own: dict[str, str], database: str, tmp_path: Path) -> None:
    """Rebuild repairs it."""
    profile = json.dumps({"type": "local", "directory": str(tmp_path)})
    assert 0 == icecore_with(own, "warehouse", "create", "w", "--profile", profile).returncode
    assert 0 == icecore_with(own, "verify").returncode
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE icecore.warehouses SET name = 'other'")
    found = icecore("verify", **own)
    assert ExitCode.NO == found.returncode
    assert "warehouses" in found.stdout
    assert 0 == icecore_with(own, "rebuild").returncode
    assert 0 == icecore_with(own, "verify").returncode


def test_a_reader_that_closes_the_pipe_changes_no_exit_code(own: dict[str, str], database: str, tmp_path: Path) -> None:
    """`icecore log | head` succeeds, and only a difference is 1."""
    profile = json.dumps({"type": "local", "directory": str(tmp_path)})
    assert 0 == icecore_with(own, "warehouse", "create", "w", "--profile", profile).returncode

    def unread(*arguments: str) -> tuple[int, str]:
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as closed:
            ended = subprocess.run(
                command(*arguments), cwd=CHECKOUT, env=os.environ | own, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60
            )
        return ended.returncode, ended.stderr

    assert (0, "") == unread("log")
    assert (0, "") == unread("log", "--follow", "--json")
    assert (0, "") == unread("verify", "--json")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE icecore.warehouses SET name = 'other'")
    assert (ExitCode.NO, "") == unread("verify", "--json")


@pytest.mark.parametrize("arguments", [("verify", "--json"), ("warehouse", "list"), ("--version",), ("--help",)], ids=lambda each: each[0])
def test_output_that_cannot_be_written_is_one_line(own: dict[str, str], arguments: tuple[str, ...]) -> None:
    """As on a full disk. The exit code is not that of a difference."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command(*arguments), cwd=CHECKOUT, env=os.environ | own, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (ExitCode.CRASHED, "icecore: Standard output cannot be written: No space left on device\n") == (ended.returncode, ended.stderr)


# Operators' commands on a data folder


def test_operators_commands_work_while_it_serves_and_when_it_does_not(serve: Serve) -> None:
    """They use the server's Postgres, or start and stop it themselves."""
    served = serve()
    served.post(f"{served.prefix()}/namespaces", {"namespace": ["town"], "properties": {"owner": "us"}})
    data = ["--data", str(served.data)]
    for _ in range(2):
        assert 0 == icecore("verify", *data).returncode
        assert ["demo"] == [each["name"] for each in json.loads(icecore_with({}, "warehouse", "list", "--json", *data).stdout)]
        assert 2 == len(icecore_with({}, "log", *data).stdout.splitlines())
        if served.process.poll() is None:
            assert 0 == icecore_with({}, "health", *data).returncode
            assert 0 == served.stop()
            assert not postgres_runs(served.data)
    assert not postgres_runs(served.data)
    for stopped in (icecore_with({}, "health", *data), icecore_with({"ICECORE_DATA_DIR": str(served.data)}, "health")):
        # The server at the address of the settings has another folder.
        assert (ExitCode.NO, "") == (stopped.returncode, stopped.stdout)
        assert f"icecore: No server runs with the data folder {served.data}: " in stopped.stderr
    away = icecore_with({"ICECORE_PORT": "1"}, "health")
    assert ExitCode.NO == away.returncode
    assert "http://127.0.0.1:1 does not respond: connection refused; is" in away.stderr
    assert "ssl" not in away.stderr


def test_log_tells_names_as_they_were_and_its_range(serve: Serve) -> None:
    """Positions select events, names are as of the event, and JSON has the whole event."""
    served = serve()
    prefix = served.prefix()
    served.post(f"{prefix}/namespaces", {"namespace": ["town"]})
    served.post(f"{prefix}/namespaces", {"namespace": ["town", "hall"]})
    data = ["--data", str(served.data)]
    lines = icecore_with({}, "log", *data).stdout.splitlines()
    assert ["warehouse created", "namespace created", "namespace created"] == [" ".join(line.split()[3:5]) for line in lines]
    assert ["demo", "demo:town", "demo:town.hall"] == [line.split()[5] for line in lines]
    printed = icecore_with({}, "log", "--json", "--from", "2", "--limit", "1", *data).stdout
    events = [json.loads(line) for line in printed.splitlines()]
    assert [(2, "namespace.created.v1", ["demo", "town"])] == [(event["position"], event["topic"], event["name"]) for event in events]
    assert "town" == events[0]["data"]["name"]
    assert "" == icecore_with({}, "log", "--from", "4", *data).stdout


def test_log_follows_until_ctrl_c(serve: Serve) -> None:
    """New events are printed as they are committed, and Ctrl-C ends it with success."""
    served = serve()
    subscriber = subprocess.Popen(
        command("log", "--follow", "--json", "--data", str(served.data)), cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert subscriber.stdout is not None
    with subscriber.stdout as lines:
        assert "warehouse.created.v1" == json.loads(lines.readline())["topic"]
        served.post(f"{served.prefix()}/namespaces", {"namespace": ["town"]})
        assert "namespace.created.v1" == json.loads(lines.readline())["topic"]
        subscriber.send_signal(signal.SIGINT)
        assert 0 == subscriber.wait(30)


# Workers


def children_of(process: subprocess.Popen[Any], module: bytes) -> set[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {int(child) for child in children if module in Path(f"/proc/{child}/cmdline").read_bytes()}


def worker_processes(served: Served) -> set[int]:
    return children_of(served.process, b"icecore.serving_process")


def test_children_run_no_code_of_the_working_directory(serve: Serve, open_directory: Path) -> None:
    """Serving processes and the worker start in any folder, whatever modules it contains, and without the clouds' variables."""
    foreign, ran = open_directory / "foreign", open_directory / "ran"
    for name in ("icecore", "commands"):
        (foreign / name).mkdir(parents=True)
        (foreign / name / "__init__.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})\n")
    (foreign / "orjson.py").write_text(f"open({str(ran)!r}, 'a').write('orjson')\n")
    config = open_directory / "icecore.toml"
    config.write_text('[sinks.out]\ntype = "stdout"\n')
    served = serve("--workers", "2", "--config", str(config), directory=foreign, AWS_ACCESS_KEY_ID="another's", PLAIN="plain")
    assert 2 == len(worker_processes(served))
    environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children_of(served.process, b"icecore.")]
    assert [True] * 3 == [b"PLAIN=plain" in each for each in environments]
    assert not any(b"AWS_ACCESS_KEY_ID" in each for each in environments)
    assert served.process.stdout is not None
    assert "demo" == json.loads(served.process.stdout.readline())["subject"]
    assert not ran.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_server_that_writes_has_a_worker(own: dict[str, str], tmp_path: Path, read_only: bool) -> None:
    """On a standby, a worker could do nothing."""
    port = free_port()
    with running(
        command("serve", "--port", str(port)),
        log=tmp_path / "log",
        ready=lambda: responds(f"http://127.0.0.1:{port}/readyz"),
        seconds_max=START_SECONDS_MAX,
        environment=os.environ | own | {"ICECORE_READ_ONLY": str(read_only).lower()},
    ) as process:
        assert (0 if read_only else 1) == len(children_of(process, b"icecore.worker"))


def test_work_may_run_apart_from_serving(serve: Serve) -> None:
    """A server without a worker counts nothing. `icecore worker` does, also after `icecore rebuild --statistics`."""
    served = serve(ICECORE_WORKER_BESIDE_SERVER="false")
    statistics = f"/management/v1/warehouse/{served.prefix().rpartition('/')[2]}/statistics"
    served.post(f"{served.prefix()}/namespaces", {"namespace": ["town"]})
    time.sleep(2)
    assert (0, []) == tuple(served.get(statistics)[name] for name in ("position", "stats"))
    with subprocess.Popen(command("worker", "--data", str(served.data)), cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as working:
        wait_for(lambda: served.get(statistics)["position"] == 2)
        assert [1] == [hour["number-of-namespaces"] for hour in served.get(statistics)["stats"]]
        again = icecore_with({}, "rebuild", "--statistics", "--data", str(served.data))
        assert (0, True) == (again.returncode, "statistics rebuilt up to position 2" in again.stdout)
        wait_for(lambda: served.get(statistics)["position"] == 2)
        assert [1] == [hour["number-of-namespaces"] for hour in served.get(statistics)["stats"]]
        working.send_signal(signal.SIGTERM)
        _, log = working.communicate(timeout=30)
        assert 0 == working.returncode
        # Also if another process leads all tasks, so that it has nothing else to do.
        assert ["worker_started", "stopping", "stopped"] == re.findall(r"\b(worker_started|stopping|stopped)\b", log)


def peer_ports(process: int) -> list[int]:
    """The number of established TCP connections of a process."""
    files = [str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir()]
    held = {file.removeprefix("socket:[").removesuffix("]") for file in files if file.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[2].rpartition(":")[2], 16) for row in rows if row[3] == "01" and row[9] in held]


def connections_of(process: int) -> int:
    """How many TCP connections a process holds that are established."""
    return len(peer_ports(process))


def process_of(client: http.client.HTTPConnection, served: Served) -> int:
    """The serving process that accepted the connection."""
    port = client.sock.getsockname()[1]
    (found,) = (process for process in worker_processes(served) or {served.process.pid} if port in peer_ports(process))
    return found


def test_connections_are_dealt_out_among_the_workers(two_workers: Served) -> None:
    """The connections that a client opens in succession are not all accepted by the same worker."""
    workers = worker_processes(two_workers)
    with ExitStack() as opened:
        for _ in range(64):
            client = opened.enter_context(closing(connection(two_workers)))
            client.request("GET", "/health")
            client.getresponse().read()
        shares = [connections_of(worker) for worker in workers]
    assert min(shares) >= 64 // 8, shares


def test_connections_of_a_worker_that_hangs_are_taken_by_the_others(two_workers: Served) -> None:
    """Those that the kernel assigned to it."""
    hanging = min(worker_processes(two_workers))
    os.kill(hanging, signal.SIGSTOP)
    try:
        for _ in range(12):
            assert "ok" == two_workers.get("/health")["status"]
    finally:
        os.kill(hanging, signal.SIGCONT)


def test_a_port_with_workers_behind_it_is_busy(two_workers: Served, open_directory: Path) -> None:
    """Only the workers share the port."""
    port = str(urlsplit(two_workers.url).port)
    refused = icecore_with({}, "serve", "--data", str(open_directory / "another"), "--port", port, "--workers", "2")
    assert ExitCode.BUSY == refused.returncode
    assert f"Port {port} on 127.0.0.1 is in use" in refused.stderr


def test_a_worker_that_dies_is_replaced_while_the_others_serve(two_workers: Served) -> None:
    """A crash affects only its own requests. The last test of the shared server, because the new worker does not accept at once."""
    before = worker_processes(two_workers)
    assert 2 == len(before)
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    for _ in range(20):
        assert "ok" == two_workers.get("/health")["status"]
    wait_for(lambda: len(worker_processes(two_workers) - {killed}) == 2)
    died = [record for record in two_workers.records() if record["event"] == "process_restarting"]
    assert [-signal.SIGKILL] == [record["exit_code"] for record in died]


def test_workers_end_with_a_killed_supervisor(serve: Serve) -> None:
    """Otherwise a worker would keep the port."""
    served = serve("--workers", "2")
    workers = worker_processes(served)
    served.process.kill()
    served.process.wait()
    wait_for(lambda: not accepts(served.url))
    wait_for(lambda: not any(is_alive(worker) for worker in workers))


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# Logs


def test_every_request_is_logged_with_its_id_and_without_what_it_holds(serve: Serve) -> None:
    """P9: without body, headers and query."""
    served = serve(ICECORE_LOG_LEVEL="debug")
    request = urllib.request.Request(
        f"{served.url}{served.prefix()}/namespaces?hunter1=x",
        json.dumps({"namespace": ["town"], "properties": {"note": "hunter2"}}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer hunter3hunter3", "X-Request-Id": "mine-1"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert "mine-1" == response.headers["X-Request-Id"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        served.get(f"{served.prefix()}/namespaces/nowhere")
    assert 0 == served.stop()
    requests = [record for record in served.records() if record["event"] == "request"]
    assert all(record["request_id"] for record in requests)
    assert [("createNamespace", 200)] == [(each["operation"], each["status"]) for each in requests if each["request_id"] == "mine-1"]
    for secret in ("hunter1", "hunter2", "hunter3"):
        assert secret not in served.log.read_text()
