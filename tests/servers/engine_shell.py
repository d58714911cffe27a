"""Runs SQL in DuckDB or ClickHouse for another process: one JSON statement per line in, one JSON result per line out.

Argument: `duckdb` or `clickhouse`. Result: {"rows": [...]} or {"error": "..."}. It runs in an environment with both engines and without our
packages.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[list[Any]]
ERROR_TEXT_MAX = 4_000


def duckdb() -> Callable[[str], Rows]:
    """DuckDB with the extensions that it would download at their first use."""
    connection = importlib.import_module("duckdb").connect()
    for extension in ("parquet", "avro", "httpfs", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{extension}")
        (file,) = Path(package.__path__[0]).glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")

    def run(statement: str) -> Rows:
        return [list(row) for row in connection.execute(statement).fetchall()]

    return run


def clickhouse() -> Callable[[str], Rows]:
    """ClickHouse as chdb, its library for Python."""
    session = importlib.import_module("chdb.session").Session()

    def run(statement: str) -> Rows:
        return [json.loads(line) for line in str(session.query(statement, "JSONCompactEachRow")).splitlines()]

    return run


def main() -> None:
    # What an engine prints goes to standard error. Only results go to the real standard output.
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    run = {"duckdb": duckdb, "clickhouse": clickhouse}[sys.argv[1]]()
    for line in sys.stdin:
        result: dict[str, Any]
        try:
            result = {"rows": run(json.loads(line))}
        except Exception as error:  # Each engine has exceptions of its own.
            result = {"error": f"{type(error).__name__}: {error}"[:ERROR_TEXT_MAX]}
        print(json.dumps(result, default=str), file=results, flush=True)


if __name__ == "__main__":
    main()
