"""Fetches everything that the tests need from packages, so that long tests need not wait for downloads."""

import sys
import time
from collections.abc import Callable

from tests.long_form import LONG
from tests.servers import chromium, engines, flink, iceberg, java, maven, nessie, nginx, pgbouncer, postgres, spark, trino
from tests.servers.paths import ROOT, ToolMissingError
from tests.servers.pyiceberg_suite import pyiceberg_suite

KIT = ROOT / "tests" / "conformance" / "rck" / "pom.xml"


def steps() -> dict[str, Callable[[], object]]:
    """The downloads, in the order in which the tests need them."""
    wanted: dict[str, Callable[[], object]] = {
        "JDK": java.java_home,
        "Maven": maven.maven,
        "Postgres": postgres.binaries,
        "Chromium": chromium.chromium,
        "nginx": nginx.nginx_program,
        "PgBouncer": pgbouncer.pgbouncer_program,
        "compatibility kit": lambda: maven.fetch(KIT),
        "PyIceberg's suite": pyiceberg_suite,
        "Spark 3.5": spark.spark_3_5,
        "Spark 4.1": lambda: spark.spark_4_1(s3=True),
        "DuckDB and ClickHouse": engines.engines_python,
        "JDK of Trino": trino.java_home,
        "Trino": trino.trino_home,
        "Flink": flink.jars,
    }
    if LONG:
        wanted["PyIceberg's suite with Spark Connect"] = lambda: pyiceberg_suite(full=True)
        wanted["reference server"] = lambda: maven.class_path(iceberg.POM, profile="reference")
        wanted["Nessie"] = lambda: maven.jar(nessie.RUNNER)
    return wanted


def main() -> int:
    failed = 0
    for name, fetch in steps().items():
        began = time.monotonic()
        try:
            fetch()
            print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
        except ToolMissingError as missing:
            failed += 1
            print(f"{name}: {missing}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
