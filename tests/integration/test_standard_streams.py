"""Closed standard streams, crashes and early signals: what a command prints then, and its exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_program import CHECKOUT, command

UNREACHABLE = "postgresql://someone:topsecret@127.0.0.1:1/icecore"
CRASH = f"""
import sys
from icecore import cli

def crash(*arguments, **options):
    url = {UNREACHABLE!r}
    raise ValueError("a bug")

cli.app = crash
sys.argv = ["icecore"]
cli.main()
"""


def run(*arguments: str, closing: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command in a shell that closes standard streams."""
    script = f'exec "$@" {closing}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, env={**os.environ, **variables}
    )


@pytest.mark.parametrize("closing", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_dev_null(empty_database: str, closing: str) -> None:
    """The exit code is that of the command, and nothing else is printed."""
    migrated = run(*command("migrate"), closing=closing, ICECORE_DATABASE_URL=empty_database)
    assert (0, "") == (migrated.returncode, migrated.stderr)
    refused = run(*command("log", "--limit", "1"), closing=closing, ICECORE_DATABASE_URL=UNREACHABLE)
    assert (3, "") == (refused.returncode, refused.stdout)
    assert ("" if "2>" in closing else "icecore: The database cannot be reached: connection refused at 127.0.0.1:1\n") == refused.stderr


def test_a_crash_shows_no_local_variables() -> None:
    """Its trace is in the log on standard error."""
    crashed = run(sys.executable, "-c", CRASH)
    assert (5, "") == (crashed.returncode, crashed.stdout)
    assert "a bug" in crashed.stderr
    assert "topsecret" not in crashed.stderr


@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_during_the_imports_ends_the_command_without_a_trace(tmp_path: Path, ignored: bool) -> None:
    """Unless it is ignored, as in a background job of a shell."""
    (tmp_path / "cyclopts.py").write_text("import os, signal, sys\nos.kill(os.getpid(), signal.SIGINT)\nprint('imported')\nos._exit(7)\n")
    trap = "trap '' INT; " if ignored else "trap - INT; "
    script = f'{trap}exec "$@"'
    ended = subprocess.run(
        ["sh", "-c", script, "sh", *command("--version")],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert ((7, "imported\n", "") if ignored else (-signal.SIGINT, "", "")) == (ended.returncode, ended.stdout, ended.stderr)


def test_a_completion_that_cannot_be_installed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    refused = run("bash", "-c", '"$@"; exit $?', "bash", *command("--install-completion"), HOME=str(tmp_path / "home"))
    assert (2, "") == (refused.returncode, refused.stdout)
    assert "icecore: The completion cannot be installed: " in refused.stderr
    assert 1 == len(refused.stderr.splitlines())
