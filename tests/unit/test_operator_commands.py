"""Commands for operators, without a database."""

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress

from icecore import operator_commands
from icecore.exit_codes import CommandFailed, ExitCode
from icecore.operator_commands import health, json_argument, list_warehouses, rebuild, rebuild_asynchronous, work
from icecore.projections.asynchronous.projection import AsynchronousProjection
from icecore.projections.rebuild import RebuildRunningError
from icecore.settings import Settings, SettingsError


def test_a_server_that_does_not_respond_is_unhealthy_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection and says nothing."""
    monkeypatch.setattr(operator_commands, "HEALTH_SECONDS_MAX", 0.3)
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CommandFailed, match=f"{url} does not respond") as failure:
            health(Settings(), Console(file=io.StringIO()), url)
    assert ExitCode.NO == failure.value.code
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("host", "address"), [("::1", "[::1]"), ("::", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("h", "h")])
def test_the_server_of_the_settings_is_asked_at_its_host(monkeypatch: pytest.MonkeyPatch, host: str, address: str) -> None:
    """On this machine, if it listens at every address."""
    monkeypatch.setattr(operator_commands, "HEALTH_SECONDS_MAX", 0.001)
    settings = Settings(host=host, port=9, insecure=True, database_url=SecretStr("postgresql:///none"))
    with pytest.raises(CommandFailed) as failure:
        health(settings, Console(file=io.StringIO()), None)
    assert str(failure.value).startswith(f"http://{address}:9 does not respond")


def test_a_given_url_goes_before_the_server_of_the_data_folder(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.setattr(operator_commands, "_serving_url", lambda *_: "http://127.0.0.1:1")
    with pytest.raises(CommandFailed, match=f":{unused_tcp_port} does not respond"):
        health(Settings(), Console(file=io.StringIO()), f"http://127.0.0.1:{unused_tcp_port}")


def test_a_bar_shows_how_much_of_the_whole_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only on a terminal."""
    updates: list[tuple[float, float]] = []
    monkeypatch.setattr(Progress, "update", lambda self, _, *, completed, total: updates.append((completed, total)))
    with operator_commands.progress("comparing") as watch:
        watch(3, 10)
    assert [(3, 10)] == updates


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(CommandFailed, match="is not an http or https URL") as failure:
        health(Settings(), Console(file=io.StringIO()), "http://[::1")
    assert ExitCode.USAGE == failure.value.code


def test_a_file_of_json_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name, such as that of a disk, does not fill the memory."""
    (tmp_path / "profile.json").write_text('{"type": "local"}')
    assert {"type": "local"} == json_argument(f"@{tmp_path}/profile.json", "--profile")
    monkeypatch.setattr(operator_commands, "JSON_FILE_BYTES_MAX", 16)
    with pytest.raises(CommandFailed, match=r"^--profile is not JSON") as failure:
        json_argument(f"@{tmp_path}/profile.json", "--profile")
    assert ExitCode.USAGE == failure.value.code


def test_a_path_without_its_sign_gets_a_hint() -> None:
    """The argument is not repeated: it may be a credential. JSON that is only malformed gets no hint."""
    with pytest.raises(CommandFailed, match=r"^--profile is not JSON: .*; --profile @FILE reads a file$") as failure:
        json_argument("profile.json", "--profile")
    assert "profile.json" not in str(failure.value)
    with pytest.raises(CommandFailed, match=r"^--profile is not JSON") as failure:
        json_argument('{"type": ', "--profile")
    assert "@FILE" not in str(failure.value)


def test_the_metrics_port_of_a_worker_needs_consent_for_other_machines() -> None:
    """As a server's port does: there is no authentication."""
    with pytest.raises(SettingsError, match="there is no authentication"):
        work(Settings(host="0.0.0.0", metrics_port=0))


SETTINGS = Settings(database_url=SecretStr("postgresql:///serving"), database_owner_url=SecretStr("postgresql:///owner"))


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of SETTINGS, as if it had the schema of this version."""

    @contextmanager
    def opened(settings: Settings) -> Iterator[Settings]:
        yield settings

    async def passed(_: Settings) -> None:
        return None

    monkeypatch.setattr(operator_commands, "opened_database", opened)
    monkeypatch.setattr(operator_commands, "require_writable", passed)
    monkeypatch.setattr(operator_commands, "_require_owner", passed)


@pytest.mark.usefixtures("no_database")
@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (psycopg.errors.InsufficientPrivilege("no"), ExitCode.USAGE, "role of ICECORE_DATABASE_OWNER_URL is not its owner"),
        (psycopg.OperationalError("connection refused"), ExitCode.DATABASE, "database of ICECORE_DATABASE_OWNER_URL cannot be reached"),
        (RebuildRunningError("Another rebuild is running"), ExitCode.BUSY, "Another rebuild is running"),
    ],
)
def test_a_rebuild_is_the_owner_s_and_says_why_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: ExitCode, said: str
) -> None:
    """Each reason with its exit code."""
    asked: list[str] = []

    def fail(dsn: str, _watch: object) -> None:
        asked.append(dsn)
        raise error

    monkeypatch.setattr(operator_commands, "rebuild_on_every_core", fail)
    with pytest.raises(CommandFailed, match=said) as failure:
        rebuild(SETTINGS, Console(file=io.StringIO()), as_json=False)
    assert (code, ["postgresql:///owner"]) == (failure.value.code, asked)


@pytest.mark.usefixtures("no_database")
@pytest.mark.parametrize("permitted", [True, False])
def test_asynchronous_read_models_are_rebuilt_by_the_owner(monkeypatch: pytest.MonkeyPatch, permitted: bool) -> None:
    """The role that serves may not."""
    asked: list[str] = []

    def rebuilt(dsn: str, projection: type[AsynchronousProjection]) -> int:
        asked.append(f"{dsn} {projection.name}")
        if not permitted:
            raise psycopg.errors.InsufficientPrivilege("no")
        return 7

    monkeypatch.setattr(operator_commands, "rebuild_projection", rebuilt)
    out = io.StringIO()
    if permitted:
        assert ExitCode.OK == rebuild_asynchronous(SETTINGS, Console(file=out), ["search"], as_json=True)
        assert '{"search":7}' == out.getvalue().strip()
    else:
        with pytest.raises(CommandFailed, match="role of ICECORE_DATABASE_OWNER_URL is not its owner") as failure:
            rebuild_asynchronous(SETTINGS, Console(file=out), ["search"], as_json=True)
        assert ExitCode.USAGE == failure.value.code
    assert ["postgresql:///owner search"] == asked


@pytest.mark.usefixtures("no_database")
def test_columns_are_aligned_by_the_width_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Chinese character has the width of two others."""
    names = ["lake", "\N{CJK UNIFIED IDEOGRAPH-6E56}" * 6]
    profile = {"type": "s3", "bucket": "lake", "region": "eu-central-1"}
    rows: Any = [
        {"id": str(number) * 36, "name": name, "status": "active", "storage-profile": profile} for number, name in enumerate(names)
    ]

    def run(coroutine: Any) -> Any:
        coroutine.close()
        return rows

    monkeypatch.setattr(operator_commands, "uvloop", SimpleNamespace(run=run))
    out = io.StringIO()
    assert ExitCode.OK == list_warehouses(SETTINGS, Console(file=out), None, (), as_json=False)
    lines = out.getvalue().splitlines()
    assert {14} == {cell_len(line[: line.index(end)]) for line, end in zip(lines, ("id ", "0" * 36, "1" * 36), strict=True)}
    assert names[1] in lines[2]
