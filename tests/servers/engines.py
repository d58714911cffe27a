"""Engines in processes of their own, like users' sessions; DuckDB and ClickHouse from PyPI."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from requirements import environment
from requirements.environment import REQUIREMENTS
from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT, TOOLS
from tests.servers.processes import stop

SHELL = ROOT / "tests" / "servers" / "engine_shell.py"
STOP_SECONDS_MAX = 15.0


def engines_python() -> Path:
    """The Python of an environment with DuckDB and ClickHouse."""
    return environment.make(TOOLS / "engines", REQUIREMENTS / "engines.lock")


class SqlRefusedError(Exception):
    """The engine refused a statement; the message is the engine's."""


class EngineShell:
    """A session of an engine."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.version: str = self._result()[0][0]

    def sql(self, statement: str) -> list[list[Any]]:
        """The rows of one statement. Raises SqlRefusedError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        return self._result()

    def _result(self) -> list[list[Any]]:
        assert self._process.stdout is not None
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
    with run_shell(engines_python(), engine, variables=clean_environment()) as shell:
        yield shell


@contextlib.contextmanager
def run_shell(
    python: Path, *arguments: str, variables: Mapping[str, str], directory: Path | None = None, log: Path | None = None
) -> Iterator[EngineShell]:
    """Runs the shell in that Python for the length of the block. `log` receives what the engine prints."""
    command = [str(python), str(SHELL), *arguments]
    with contextlib.ExitStack() as files:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=files.enter_context(log.open("ab")) if log else None,
            text=True,
            env=variables,
            cwd=directory,
            start_new_session=True,
        )
    try:
        yield EngineShell(process)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
        stop(process)
