"""Runs SQL in a PySpark session for another process: one JSON request per line in, one JSON response per line out.

Arguments: the session's settings as one JSON object. Request: a string of SQL. Response: {"rows": [...]} or {"error": "..."}. It runs in an
environment with PySpark and without our packages.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

ERROR_TEXT_MAX = 4_000


def plain(value: Any) -> Any:
    """A value as JSON; types that JSON lacks become text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return str(value)


def main() -> None:
    # Spark's output goes to standard error. Only responses go to the real standard output.
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]").appName("icecore-tests")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps({"rows": [[spark.version]]}), file=responses, flush=True)
    for line in sys.stdin:
        response: dict[str, Any]
        try:
            response = {"rows": [plain(tuple(row)) for row in spark.sql(json.loads(line)).collect()]}
        except Exception as refusal:  # PySpark has no class for most exceptions of the JVM.
            response = {"error": f"{type(refusal).__name__}: {refusal}"[:ERROR_TEXT_MAX]}
        print(json.dumps(response), file=responses, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
