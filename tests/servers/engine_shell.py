"""Runs SQL in an engine for another process: one JSON statement per line in, one JSON result per line out.

Arguments: `duckdb`, `clickhouse`, or `spark` and the session's settings as one JSON object. Result: {"rows": [...]} or {"error": "..."}.
The first one is the engine's version, once the session is open. It runs in an environment with the engine and without our packages.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Rows = list[list[Any]]
ERROR_TEXT_MAX = 4_000


def plain(value: Any) -> Any:
    """A value as JSON; types that JSON lacks become text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return str(value)


def plain_rows(rows: Iterable[Iterable[Any]]) -> Rows:
    return [[plain(value) for value in row] for row in rows]


def duckdb() -> tuple[str, Callable[[str], Rows]]:
    """DuckDB with the extensions that it would download at their first use."""
    package = importlib.import_module("duckdb")
    connection = package.connect()
    for extension in ("parquet", "avro", "httpfs", "iceberg"):
        extension_package = importlib.import_module(f"duckdb_extension_{extension}")
        (file,) = Path(extension_package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return package.__version__, lambda statement: plain_rows(connection.execute(statement).fetchall())


def clickhouse() -> tuple[str, Callable[[str], Rows]]:
    """ClickHouse as chdb, its library for Python."""
    session = importlib.import_module("chdb.session").Session()

    def run(statement: str) -> Rows:
        return [json.loads(line) for line in str(session.query(statement, "JSONCompactEachRow")).splitlines()]

    return str(run("SELECT version()")[0][0]), run


def spark() -> tuple[str, Callable[[str], Rows]]:
    """PySpark with the settings of the second argument."""
    builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]").appName("icecore-tests")
    for name, value in json.loads(sys.argv[2]).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session.version, lambda statement: plain_rows(session.sql(statement).collect())


def main() -> None:
    # What an engine prints goes to standard error. Only results go to the real standard output.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    version, run = {"duckdb": duckdb, "clickhouse": clickhouse, "spark": spark}[sys.argv[1]]()
    print(json.dumps({"rows": [[version]]}), file=results, flush=True)
    for line in sys.stdin:
        result: dict[str, Any]
        try:
            result = {"rows": run(json.loads(line))}
        except Exception as error:  # Each engine has exceptions of its own.
            result = {"error": f"{type(error).__name__}: {error}"[:ERROR_TEXT_MAX]}
        print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
    main()
