"""The demo shows PyIceberg and Spark, their events as they arrive, and the log."""

import re
import subprocess
import sys

import pytest

from tests.servers.icecore import clean_environment
from tests.servers.paths import ROOT
from tests.servers.spark import spark_3_5

HANGS_AFTER_SECONDS = 300


@pytest.fixture(scope="module")
def demo() -> str:
    """The output of one run of the demo."""
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
    """The events of a statement are shown before the next statement."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", demo)
    _, _, spark = plain.partition("Spark SQL")
    arrived, _, _ = spark.partition("The log:")
    created = arrived.index("table created  town.visits")
    assert arrived.index("CREATE TABLE icecore.town.visits") < created < arrived.index("SELECT name, born, place FROM icecore.town.guests")
    assert "table renamed  town.outings  was town.visits" in arrived
    assert "table committed  town.visits  append +2 rows" in arrived


@pytest.mark.parametrize("row", ["table.renamed, 1", "people, 4, 3, 0, 3", "demo.town.visits, live, ", "demo.town.outings, live, "])
def test_demo_ends_with_queries_on_the_log(demo: str, row: str) -> None:
    """Events by type, growth, and the names of a table over time."""
    _, _, queries = demo.partition("icecore pipeline ingest")
    assert 3 == len(re.findall("SELECT .* FROM icecore.log", queries))
    assert row in queries


@pytest.mark.parametrize("topic", ["namespace created", "table created", "table committed", "table renamed", "view created"])
def test_demo_shows_the_log_of_it(demo: str, topic: str) -> None:
    """Each kind of change is shown, in colour."""
    _, _, log = demo.partition("icecore log")
    assert topic in log
    assert "\x1b[" in log
