"""The quick form of benchmarks/reliability: promises hold under faults, and each check turns red if its promise is broken."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.reliability.checks import CHECKS
from benchmarks.reliability.fault_injection import CONTROLS
from tests.servers.paths import ROOT

SEED = "1"
# About five minutes on a busy machine. Every part has a shorter limit of its own.
SECONDS_MAX = 900

pytestmark = pytest.mark.timeout(SECONDS_MAX + 60)

Outcome = Mapping[str, Any]


def outcomes(directory: Path, *arguments: str) -> dict[str, Outcome]:
    """The results of `python -m benchmarks.reliability` by name. It runs in a separate process with its own Postgres, which it crashes."""
    report = directory / "report.jsonl"
    command = [sys.executable, "-m", "benchmarks.reliability", "--seed", SEED, "--report", str(report), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    print(done.stdout)
    assert report.exists(), f"ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return {outcome["name"]: outcome for outcome in map(orjson.loads, report.read_bytes().splitlines())}


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All negative controls; some run concurrently."""
    return outcomes(tmp_path_factory.mktemp("controls"), "--only-controls")


def test_no_promise_breaks_while_everything_else_does(tmp_path: Path) -> None:
    """kill -9, crashes, lost responses, fault points, and a frozen, stopped and full Postgres under 32 committers: every check stays
    green.
    """
    proof = outcomes(tmp_path, "--no-controls")["quick"]
    assert {} == proof["red"]
    assert 2 == proof["workers"], "only one worker committed: nothing was proved about two"
    assert proof["acknowledged"] > 0
    assert proof["kills-in-flight"] > 0


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_promise_is_seen(controls: dict[str, Outcome], name: str) -> None:
    """The product with this one fault turns this check red, and no unrelated one."""
    assert "error" not in controls[name], controls[name]
    red = {*controls[name]["red"]}
    assert CONTROLS[name].check in red
    assert set() == red - {CONTROLS[name].check} - CONTROLS[name].follows, controls[name]["red"]


def test_every_check_has_its_control() -> None:
    """Each check can fail."""
    assert {*CHECKS, "models"} == {control.check for control in CONTROLS.values()}
