"""JSON reports of `migrate`, `verify` and `rebuild`, and progress bars."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from icecore.domain.recorded import GENESIS_HASH
from icecore.migrations.apply import load_migrations
from tests.fixtures.catalog import opened_catalog
from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT


def icecore(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(arguments), cwd=ROOT, env=_environment(database), capture_output=True, text=True, timeout=120, check=False
    )


def report(database: str, *arguments: str) -> Any:
    """The report, without other output: there is no bar without a terminal."""
    done = icecore(database, *arguments, "--json")
    assert (0, "") == (done.returncode, done.stderr)
    return json.loads(done.stdout)


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-P", "-m", "icecore", *arguments]


def _environment(database: str) -> dict[str, str]:
    return clean_environment() | {"ICECORE_DATABASE_URL": database, "COLUMNS": "80", "TERM": "xterm"}


def test_migrate_says_what_it_applied(empty_database: str) -> None:
    assert {"applied": [str(each) for each in load_migrations()]} == report(empty_database, "migrate")
    assert {"applied": []} == report(empty_database, "migrate")


async def test_verify_and_rebuild_say_what_they_compared_and_wrote(database: str, tmp_path: Path) -> None:
    """A difference is an object with its place and the expected and found values. The exit code is 1."""
    async with opened_catalog(database, tmp_path / "lake"):
        pass
    found = report(database, "verify")
    assert {"ok": True, "position": 1, "events": 1, "generation": 1, "difference-count": 0, "differences": []}.items() <= found.items()
    assert found["hash"] not in ("", GENESIS_HASH.hex())
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE icecore.warehouses SET name = '[red]'")
    done = icecore(database, "verify", "--json")
    found = json.loads(done.stdout)
    assert (1, False, 1) == (done.returncode, found["ok"], found["difference-count"])
    (difference,) = found["differences"]
    assert ("warehouses", "name", "demo", "[red]") == tuple(difference[each] for each in ("table", "column", "expected", "found"))
    advice = ["read models differ: run `icecore rebuild`, which computes them again from the log, then `icecore verify`"]
    assert advice == found["advice"]
    assert f"advice: {advice[0]}" in icecore(database, "verify").stdout
    assert {"generation": 2, "events": 1}.items() <= report(database, "rebuild").items()
    assert {"statistics": 1} == report(database, "rebuild", "--statistics")
    assert {"statistics": 1, "search": 1} == report(database, "rebuild", "--search", "--statistics")
    assert report(database, "verify")["ok"]


@pytest.mark.parametrize(("command", "said"), [("verify", "comparing with the log"), ("rebuild", "folding the log")])
def test_a_bar_is_shown_on_a_terminal(database: str, command: str, said: str) -> None:
    """On standard error. Standard output has only the report."""
    reading, terminal = pty.openpty()
    with os.fdopen(terminal, "wb"), subprocess.Popen(
        _command((command, "--json")), cwd=ROOT, env=_environment(database), stdout=subprocess.PIPE, stderr=terminal
    ) as process:  # fmt: skip
        output, _ = process.communicate(timeout=120)
    assert 0 == process.returncode
    assert isinstance(json.loads(output), dict)
    shown = os.read(reading, 65_536).decode()
    os.close(reading)
    assert said in shown
