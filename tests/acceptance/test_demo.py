"""The demo shows PyIceberg and Spark at work, the events of it as they arrive, and the log they left."""

import re
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


def test_demo_shows_events_while_spark_goes_on(demo: str) -> None:
    """What a statement committed is told before a later statement, and nothing is left for the end."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", demo)
    _, _, spark = plain.partition("Spark SQL")
    arrived, _, _ = spark.partition("The log:")
    created = arrived.index("table created  town.visits")
    assert arrived.index("CREATE TABLE icecore.town.visits") < created < arrived.index("SELECT name, born, place FROM icecore.town.guests")
    assert "table renamed  town.outings  was town.visits" in arrived
    assert "table committed  town.visits  append +2 rows" in arrived


@pytest.mark.parametrize("topic", ["namespace created", "table created", "table committed", "table renamed", "view created"])
def test_demo_shows_the_log_of_it(demo: str, topic: str) -> None:
    """Each kind of change stands in the log, in colour."""
    _, _, log = demo.partition("icecore log")
    assert topic in log
    assert "\x1b[" in log
