"""The demo shows PyIceberg and Spark at work and the log they left."""

import subprocess
import sys

import pytest

from tests.servers.icecore import clean_environment
from tests.servers.places import ROOT
from tests.servers.spark import spark_3_5

HANGS_AFTER_SECONDS = 300


@pytest.fixture(scope="module")
def demo() -> str:
    """What one run of the demo prints."""
    spark_3_5()
    command = [sys.executable, "-m", "demo"]
    limit = HANGS_AFTER_SECONDS
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("rows", ["'name': 'Edsger', 'born': 1930", "Ada, theatre", "Ada, 1815, theatre"])
def test_demo_shows_what_engines_read(demo: str, rows: str) -> None:
    """Rows of PyIceberg, of a tag and of a view."""
    assert rows in demo


@pytest.mark.parametrize("topic", ["namespace created", "table created", "table committed", "table renamed", "view created"])
def test_demo_shows_the_log_of_it(demo: str, topic: str) -> None:
    """Each kind of change stands in the log, in colour."""
    _, _, log = demo.partition("icecore log")
    assert topic in log
    assert "\x1b[" in log
