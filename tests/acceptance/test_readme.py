"""The README's commands and examples, as they are in the file, have the described results."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.readme import CATALOG_URI, EVENTS_URI, pieces, properties, statements
from tests.servers.icecore import START_SECONDS_MAX, Icecore, clean_environment
from tests.servers.paths import ROOT
from tests.servers.processes import free_port, responds, running
from tests.servers.spark import spark_4_1, spark_shell

SECONDS_MAX = 120


def test_make_run_serves_the_catalog(scratch: Path) -> None:
    """`make run` serves the catalog's address. Port and folder are set by the environment."""
    port = free_port()
    variables = clean_environment() | {"ICECORE_PORT": str(port), "ICECORE_DATA_DIR": str(scratch / "made")}
    log = scratch / "make.log"
    config = f"http://127.0.0.1:{port}/catalog/v1/config?warehouse=demo"
    ready = functools.partial(responds, config)
    with running(["make", "run"], log=log, ready=ready, seconds_max=START_SECONDS_MAX, environment=variables, directory=ROOT):
        assert f"http://127.0.0.1:{port}/catalog" in log.read_text()


def test_pyiceberg_example(server: Icecore) -> None:
    """The example for PyIceberg prints the filtered row."""
    program = pieces()["pyiceberg"].replace(CATALOG_URI, server.catalog_uri)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS_MAX, env=dict(os.environ), check=False
    )
    assert "" == done.stderr
    assert "[{'name': 'Grace', 'born': 1906, 'field': None}]\n" == done.stdout


def test_events_example(server: Icecore) -> None:
    """The command for events prints the log from its beginning and continues until the test ends it."""
    command = pieces()["events"].replace(EVENTS_URI, f"{server.uri}/history/v1/events")
    shell = subprocess.Popen(["bash", "-c", f"exec {command}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert shell.stdout is not None
    # The test's time limit ends a silent stream.
    lines = [shell.stdout.readline().rstrip("\n") for _ in range(5)]
    assert ["id: 1", "event: io.icecore.warehouse.created.v1"] == lines[2:4]
    assert "demo" == json.loads(lines[4].removeprefix("data: "))["subject"]
    assert None is shell.poll()
    shell.terminate()
    shell.communicate()


@pytest.mark.timeout(900)
def test_spark_example(server: Icecore, scratch: Path) -> None:
    """The statements for Spark run with the settings of the README, with the same jar from the cache."""
    spark = spark_4_1()
    settings = properties(pieces()["spark settings"])
    package = settings.pop("spark.jars.packages").split(":")
    assert [f"{package[1]}-{package[2]}.jar"] == [jar.name for jar in spark.jars]
    settings = {name: value.replace(CATALOG_URI, server.catalog_uri) for name, value in settings.items()}
    with spark_shell(spark, settings, scratch / "spark") as shell:
        answered = [(statement, shell.sql(statement)) for statement in statements(pieces()["spark"])]
    selected = [rows for statement, rows in answered if statement.startswith("SELECT")]
    assert [[[1, "tea", 3.5], [2, "bread", 4.5]], [["bread", 4.5]]] == selected
