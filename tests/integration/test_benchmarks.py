"""The commands of benchmarks/README.md in a short form: tiny blocks, few rounds. The long tests start the peers' servers too."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.long_form import LONG
from tests.servers.icecore import Icecore, icecore
from tests.servers.paths import ROOT
from tests.servers.processes import free_port

SECONDS_MAX = 2_000 if LONG else 500
TINY = ("--rounds", "1", "--block-seconds", "0.05")
README = (ROOT / "benchmarks" / "README.md").read_text()
# Excluded: the command that changes the recorded rates, the one without a short form, and in the short form the one with Spark and 10,000
# tables, which takes minutes.
EXCLUDED = ("--record", "embedded_start", *(() if LONG else ("pipeline_plan",)))
COMMANDS = [
    line.split("#")[0].split()[2:]
    for line in README.splitlines()
    if line.startswith("python -m ") and not any(word in line for word in EXCLUDED)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Icecore]:
    """The server for `--uri`. Its own warehouse is `demo`."""
    with icecore(tmp_path_factory.mktemp("benchmarks")) as started:
        yield started


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ICECORE_")}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_documented_command_measures(command: list[str], server: Icecore, tmp_path: Path) -> None:
    """It succeeds, and each result is a number."""
    module, *arguments = [word.replace("http://127.0.0.1:8181", server.uri).replace("PROFILES", str(tmp_path)) for word in command]
    if module == "benchmarks.peers" and not LONG:
        arguments += ["--only", "icecore"]
    done = run(module, *arguments, *TINY)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "not measured" not in done.stdout, done.stdout + done.stderr
    if module == "benchmarks.peers":
        assert re.search(r"^\| failed \|( 0 \|)+$", done.stdout, re.MULTILINE), done.stdout
    if "PROFILES" in command:
        assert [*tmp_path.glob("*.txt")]


def test_a_peer_that_cannot_be_had_is_named_and_fails() -> None:
    """In the table and in the exit code."""
    done = run("benchmarks.peers", "--only", "--uri", f"gone=http://127.0.0.1:{free_port()}", *TINY)
    assert 1 == done.returncode, done.stdout + done.stderr
    assert "gone is not measured: [Errno 111] Connection refused" in done.stdout
    assert "gone: [Errno 111] Connection refused" in done.stderr.splitlines()


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8181/catalog", "name=127.0.0.1:8181", "=http://127.0.0.1:8181"])
def test_a_peer_without_a_name_or_an_address_is_refused(uri: str) -> None:
    """Before a server is started."""
    done = run("benchmarks.peers", "--uri", uri)
    assert 2 == done.returncode
    assert "is not NAME=http://…" in done.stderr
