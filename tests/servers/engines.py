"""DuckDB and ClickHouse from PyPI, each in a process of its own, like a user's session."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from requirements import environment
from requirements.environment import REQUIREMENTS
from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT, TOOLS

SHELL = ROOT / "tests" / "servers" / "engine_shell.py"


def engines_python() -> Path:
    """The Python of an environment with both engines."""
    return environment.make(TOOLS / "engines", REQUIREMENTS / "engines.lock")


class SqlRefusedError(Exception):
    """The engine refused a statement; the message is the engine's."""


class EngineShell:
    """A session of an engine."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of one statement. Raises SqlRefusedError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SqlRefusedError(f"The engine ended with {self._process.wait()}")
        result = json.loads(line)
        if "error" in result:
            raise SqlRefusedError(result["error"])
        rows: list[list[Any]] = result["rows"]
        return rows


@contextlib.contextmanager
def engine_shell(engine: Literal["duckdb", "clickhouse"]) -> Iterator[EngineShell]:
    """A session for the length of the block."""
    command = [str(engines_python()), str(SHELL), engine]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment()) as process:
        try:
            yield EngineShell(process)
        finally:
            process.kill()
