"""The demo shows PyIceberg and Spark at work and the log they left, in under a minute."""

import subprocess
import sys
import time

import pytest

from tests.servers.icecore import clean_environment
from tests.servers.places import ROOT
from tests.servers.spark import spark_3_5

DEMO_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def shown() -> str:
    """What `make demo` prints once everything is set up."""
    spark_3_5()  # set-up is not part of the minute
    began = time.monotonic()
    command = [sys.executable, "-m", "demo"]
    limit = 5 * DEMO_SECONDS_MAX
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=limit, check=False)
    seconds = time.monotonic() - began
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert seconds < DEMO_SECONDS_MAX
    return done.stdout


@pytest.mark.parametrize("rows", ["'name': 'Edsger', 'born': 1930", "Ada, theatre", "Ada, 1815, theatre"])
def test_demo_shows_what_engines_read(shown: str, rows: str) -> None:
    """Rows of PyIceberg, of a tag and of a view."""
    assert rows in shown


@pytest.mark.parametrize("topic", ["namespace.created", "table.created", "table.committed", "table.renamed", "view.created"])
def test_demo_shows_the_log_of_it(shown: str, topic: str) -> None:
    """Each kind of change stands in the log, in colour."""
    _, _, log = shown.partition("icecore log")
    assert topic in log
    assert "\x1b[" in log
