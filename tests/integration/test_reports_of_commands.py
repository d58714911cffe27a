"""JSON reports of `migrate`, `verify` and `rebuild`, and progress bars."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path

import psycopg
import pytest

from icecore.domain.recorded import GENESIS_HASH
from icecore.migrations.apply import load_migrations
from tests.fixtures.catalog import opened_catalog
from tests.fixtures.operator_commands import Operator, operator_on, read_json
from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-P", "-m", "icecore", *arguments]


def _environment(database: str) -> dict[str, str]:
    return clean_environment() | {"ICECORE_DATABASE_URL": database, "COLUMNS": "80", "TERM": "xterm"}


def operator_without_a_key(database: str) -> Operator:
    """For commands that need none."""
    return operator_on(database, ICECORE_SECRET_KEY="")


def test_migrate_says_what_it_applied(empty_database: str) -> None:
    operator = operator_without_a_key(empty_database)
    assert {"applied": [str(each) for each in load_migrations()]} == read_json(operator, "migrate")
    assert {"applied": []} == read_json(operator, "migrate")


def test_verify_and_rebuild_say_what_they_compared_and_wrote(database: str, tmp_path: Path) -> None:
    """A difference is an object with its place and the expected and found values. The exit code is 1. No terminal, no bar."""

    async def make_warehouse() -> None:
        async with opened_catalog(database, tmp_path / "lake"):
            pass

    asyncio.run(make_warehouse())
    operator = operator_without_a_key(database)
    report = partial(read_json, operator)
    found = report("verify")
    assert {"ok": True, "position": 1, "events": 1, "generation": 1, "difference-count": 0, "differences": []}.items() <= found.items()
    assert found["hash"] not in ("", GENESIS_HASH.hex())
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE icecore.warehouses SET name = '[red]'")
    code, printed, said = operator("verify", "--json")
    found = json.loads(printed)
    assert (1, "", False, 1) == (code, said, found["ok"], found["difference-count"])
    (difference,) = found["differences"]
    assert ("warehouses", "name", "demo", "[red]") == tuple(difference[each] for each in ("table", "column", "expected", "found"))
    advice = ["read models differ: run `icecore rebuild`, which computes them again from the log, then `icecore verify`"]
    assert advice == found["advice"]
    assert f"advice: {advice[0]}" in operator("verify")[1]
    assert {"generation": 2, "events": 1}.items() <= report("rebuild").items()
    assert {"statistics": 1} == report("rebuild", "--statistics")
    assert {"statistics": 1, "search": 1} == report("rebuild", "--search", "--statistics")
    assert report("verify")["ok"]


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
