"""The demo shows PyIceberg and Spark at work and the log they left, in under a minute."""

import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from tests.servers.icecore import clean_environment
from tests.servers.places import ROOT
from tests.servers.spark import spark_3_5

DEMO_SECONDS_MAX = 60


@dataclass(frozen=True)
class Demo:
    """What `make demo` prints, and how long it takes once everything is set up."""

    text: str
    seconds: float


@pytest.fixture(scope="module")
def demo() -> Demo:
    """One run of the demo."""
    spark_3_5()  # set-up is not part of the minute
    began = time.monotonic()
    command = [sys.executable, "-m", "demo"]
    limit = 5 * DEMO_SECONDS_MAX
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=limit, check=False)
    seconds = time.monotonic() - began
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Demo(done.stdout, seconds)


@pytest.mark.parametrize("rows", ["'name': 'Edsger', 'born': 1930", "Ada, theatre", "Ada, 1815, theatre"])
def test_demo_shows_what_engines_read(demo: Demo, rows: str) -> None:
    """Rows of PyIceberg, of a tag and of a view."""
    assert rows in demo.text


@pytest.mark.parametrize("topic", ["namespace created", "table created", "table committed", "table renamed", "view created"])
def test_demo_shows_the_log_of_it(demo: Demo, topic: str) -> None:
    """Each kind of change stands in the log, in colour."""
    _, _, log = demo.text.partition("icecore log")
    assert topic in log
    assert "\x1b[" in log


def test_demo_takes_less_than_a_minute(demo: Demo) -> None:
    """A newcomer does not wait."""
    assert demo.seconds < DEMO_SECONDS_MAX
