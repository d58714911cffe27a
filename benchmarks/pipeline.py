"""What the claims about `icecore pipeline` share: a log of many commits, and jobs on Spark with a number of cores."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from benchmarks import seeding
from benchmarks.bench import NAMESPACE, Bench
from benchmarks.servers import ROOT, Service, environment_of
from tests.servers.spark import pipeline_environment, pipeline_settings, spark_4_1

Json = seeding.Json

COMMITS = 9
"""Of each table; with its registration an event more."""
JOB_SECONDS_MAX = 3_600


@dataclass(frozen=True, slots=True)
class Timed:
    """The JSON that a command printed, and the seconds that it took in all, with the start of Python and Java."""

    report: Json
    seconds: float


@contextlib.contextmanager
def log_of(bench: Bench, events: int, *, warehouses: tuple[str, ...] = ("system",)) -> Iterator[Service]:
    """A server whose log has about that many events, nine of ten of them commits, and local warehouses for landed tables."""
    name = f"pipeline_{events}"
    dsn = bench.cluster.database(name)
    if name not in bench.made:
        seeding.make_warehouse(dsn, seeding.NOWHERE)
        done = seeding.append_tables(dsn, NAMESPACE, events // (COMMITS + 1), with_files=False, commits=COMMITS)
        print(f"    seeded {done.position} events in {done.seconds:.0f} s", flush=True)
        bench.made.add(name)
    for warehouse in warehouses:
        if f"{name} {warehouse}" not in bench.made:
            directory = bench.cluster.directory / f"{name}-{warehouse}"
            seeding.make_warehouse(dsn, seeding.local_profile(directory), name=warehouse)
            bench.made.add(f"{name} {warehouse}")
    with bench.served(name) as service:
        yield service


def job(service: Service, cores: int, *arguments: str) -> Timed:
    """Runs `icecore pipeline …` in local mode on that many cores."""
    settings = [part.replace("local[2]", f"local[{cores}]") for part in pipeline_settings(spark_4_1())]
    where = ["--uri", f"{service.uri}/catalog", *settings]
    return _timed(service, "pipeline", *arguments, *where, variables=pipeline_environment(spark_4_1()))


def verify(service: Service) -> Timed:
    """Runs `icecore verify`."""
    return _timed(service, "verify")


def _timed(service: Service, *arguments: str, variables: dict[str, str] | None = None) -> Timed:
    command = [sys.executable, "-m", "icecore", *arguments, "--json"]
    environment = {**(variables or {}), **environment_of(service.dsn)}
    if variables is not None:
        environment |= {name: variables[name] for name in ("PYTHONPATH", "PYSPARK_PYTHON", "JAVA_HOME", "PATH", "SPARK_LOCAL_IP")}
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=JOB_SECONDS_MAX, check=False)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[2:5])} ended with {done.returncode}: {done.stderr[-2_000:]}")
    return Timed(orjson.loads(done.stdout.splitlines()[-1]), seconds)
