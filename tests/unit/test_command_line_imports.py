"""What the program imports before it knows its command: little, because the completion of a shell starts it at every key."""

import json
import subprocess
import sys

import pytest

# Modules that only a command needs: servers, drivers, validation, and the packages that contain all commands and queries.
HEAVY = {
    "aiohttp",
    "botocore",
    "eventsourcing",
    "icecore.api",
    "icecore.commands",
    "icecore.compose",
    "icecore.projections",
    "icecore.publishers",
    "icecore.queries",
    "icecore.settings",
    "obstore",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "pyspark",
}
_PROGRAM = """
import json, sys
from icecore import cli
code = cli.run(json.loads(sys.argv[1]))
print("\\n" + json.dumps(sorted(sys.modules)))
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", ["--help", "--version", "warehouse --help", "task list --help", "pipeline --help"])
def test_help_imports_no_heavy_module(arguments: str) -> None:
    command = [sys.executable, "-c", _PROGRAM, json.dumps(arguments.split())]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    imported = {*json.loads(done.stdout.splitlines()[-1])}
    assert "icecore.cli" in imported
    assert set() == HEAVY & imported
