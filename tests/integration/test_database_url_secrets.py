"""Errors about an invalid database URL do not contain its password, for every command."""

import os
import subprocess
import sys

import psycopg
import pytest

from icecore.exit_codes import ExitCode
from tests.fixtures.catalog import SECRET_KEY
from tests.servers.paths import ROOT

CANARY = "canary77"


def icecore(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    command = [sys.executable, "-m", "icecore", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment | variables, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"postgresql+psycopg://icecore:{CANARY}@127.0.0.1:5432/icecore", "postgresql+psycopg://"),
        (f"postgres+asyncpg://icecore:{CANARY}@127.0.0.1/icecore", "postgresql://"),
        (f"icecore:{CANARY}@127.0.0.1/icecore", "postgresql://"),
        (f"jdbc:postgresql://127.0.0.1/icecore?user=icecore&password={CANARY}", "postgresql://"),
        (f"postgresql://icecore:{CANARY}%zz@127.0.0.1/icecore", "percent"),
        (f"postgresql://icecore:a@{CANARY}@127.0.0.1/icecore", "percent"),
        (f"postgresql://icecore:1/{CANARY}@127.0.0.1/icecore", "percent"),
        (f"postgresql://icecore:{CANARY}@127.0.0.1:port/icecore", "percent"),
        (f"postgresql://icecore:{CANARY}@[::1/icecore", "percent"),
        (f"postgresql://icecore@127.0.0.1/icecore?passwort={CANARY}", "percent"),
        (f"host=127.0.0.1 password={CANARY} {CANARY}", "postgresql://"),
        (f"host='127.0.0.1 password={CANARY}", "postgresql://"),
    ],
)
@pytest.mark.parametrize("variable", ["ICECORE_DATABASE_URL", "ICECORE_DATABASE_OWNER_URL", "ICECORE_DATABASE_POOLER_URL"])
def test_a_url_that_libpq_cannot_read_is_a_wrong_setting(url: str, said: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the setting and the format."""
    from icecore.settings import SettingsError, load_settings

    monkeypatch.setenv("ICECORE_DATABASE_URL", "postgresql://127.0.0.1/icecore")
    monkeypatch.setenv(variable, url)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert variable in str(refused.value)
    assert said in str(refused.value)
    assert CANARY not in str(refused.value)


def test_the_command_line_says_no_more() -> None:
    """With SQLAlchemy's form, which people copy."""
    failed = icecore("migrate", ICECORE_DATABASE_URL=f"postgresql+psycopg://icecore:{CANARY}@127.0.0.1:5432/icecore")
    assert ExitCode.USAGE == failed.returncode
    assert CANARY not in failed.stdout + failed.stderr
    assert "postgresql+psycopg://" in failed.stderr


@pytest.mark.parametrize("command", ["migrate", "sinks", "serve"])
def test_a_database_that_refuses_is_named_by_host_and_port(command: str) -> None:
    """The reason, host and port; neither user, database nor password."""
    arguments = [command, "--port", "0"] if command == "serve" else [command]
    url = f"postgresql://{CANARY}-user:{CANARY}@127.0.0.1:1/{CANARY}-db"
    failed = icecore(*arguments, ICECORE_DATABASE_URL=url, ICECORE_SECRET_KEY=SECRET_KEY)
    assert ExitCode.DATABASE == failed.returncode, failed.stderr
    assert "The database cannot be reached: connection refused at 127.0.0.1:1\n" in failed.stderr
    assert CANARY not in failed.stdout + failed.stderr


def test_a_database_that_does_not_exist(database: str) -> None:
    """The server's message repeats names."""
    missing = psycopg.conninfo.make_conninfo(database, dbname=f"{CANARY}-db", password=CANARY)
    failed = icecore("migrate", ICECORE_DATABASE_URL=missing)
    assert ExitCode.DATABASE == failed.returncode
    assert CANARY not in failed.stdout + failed.stderr
