"""The Spark settings for an Icecore catalog, and a session with them."""

import logging
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

DataFrame: TypeAlias = Any
"""pyspark.sql.DataFrame, which has no type here: PySpark is an optional package."""
SparkSession: TypeAlias = Any
"""pyspark.sql.SparkSession."""

CATALOG = "icecore"
"""The name of the catalog in the sessions of the pipeline."""
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
"""Iceberg's runtime for the PySpark of the extra `spark`; Spark downloads it unless a setting names jars (`spark.jars`) or this package."""
_MESSAGE_MAX = 500
_JAVA_ERROR = re.compile(r"(?:: |Caused by: )((?:[\w$]+\.)+[\w$]+(?:: .*)?)")
"""The class and message of the outermost Java exception, and of its causes, in a message of Py4J."""
_CONFLICTS = ("iceberg.exceptions.CommitFailedException", "iceberg.exceptions.ValidationException")
"""The second one is that of a MERGE or a rewrite which finds the changes of another writer."""
_SOURCE_ERROR = re.compile(r"(?:\w+\.)*SourceError: (.*)")
"""The last line of the trace of a task that could not read its source."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable by which `spark-submit` tells a program where its Java is."""


def catalog_settings(name: str, uri: str, warehouse: str, **more: str) -> Mapping[str, str]:
    """The `spark.…` settings that make `uri` the Spark catalog `name`.

    warehouse -- a warehouse's name or id; with `@<position>` or `@<RFC 3339 time>` a read-only past state.
    more -- further properties of the catalog, with `_` for `-` and `__` for a dot: `io_impl`, `s3__endpoint`, `cache_enabled`.
    """
    catalog = f"spark.sql.catalog.{name}"
    properties = {key.replace("__", ".").replace("_", "-"): value for key, value in more.items()}
    return {
        "spark.sql.extensions": EXTENSIONS,
        catalog: SPARK_CATALOG,
        f"{catalog}.type": "rest",
        f"{catalog}.uri": uri,
        f"{catalog}.warehouse": warehouse,
        **{f"{catalog}.{key}": value for key, value in properties.items()},
    }


def session_settings(uri: str, warehouse: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a session of the pipeline; those of `settings` win, except for the time zone: times are in UTC.

    Tables are not cached, because a job must see the commits of others. Its scans are not reported: they are no use of the tables.
    """
    catalog = catalog_settings(CATALOG, uri, warehouse, cache_enabled="false", rest_metrics_reporting_enabled="false")
    own = {
        "spark.app.name": "icecore-pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark creates this folder, and would do so in the current one. The pipeline has no tables in it.
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "icecore-spark-warehouse"),
    }
    return {**catalog, **own, **settings, **_packages(settings), "spark.sql.session.timeZone": "UTC"}


def _packages(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Iceberg's runtime and the packages of the settings, of which one may be that runtime."""
    packages = settings.get("spark.jars.packages", "")
    if "spark.jars" in settings or "iceberg-spark-runtime" in packages:
        return {}
    return {"spark.jars.packages": ",".join(filter(None, (RUNTIME, packages)))}


def submitted_settings() -> Mapping[str, str]:
    """The settings that `spark-submit` was given; empty if this process was started otherwise. Raises ImportError without PySpark."""
    if _SUBMITTED not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def open_session(settings: Mapping[str, str]) -> SparkSession:
    """A session: that of `spark-submit`, or a new one in this process. Raises ImportError without PySpark."""
    from pyspark.sql import SparkSession as Session

    logging.getLogger("py4j").setLevel(logging.WARNING)
    # PySpark 4 would write each error of a query as a page of JSON, besides raising it.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    builder = Session.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def close_session(spark: SparkSession, *, interrupted: bool) -> None:
    """Ends the session. interrupted -- in the middle of a call: its connection to Java is of no more use, so Java is killed."""
    if not interrupted:
        spark.stop()
    elif (java := getattr(spark.sparkContext._gateway, "proc", None)) is not None:
        java.kill()


def catalog_prefix(spark: SparkSession) -> str:
    """The prefix that the session's catalog got for its warehouse: Icecore's is the id of the warehouse."""
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG).icebergCatalog()
    return str(catalog.properties()["prefix"])


def spark_errors() -> tuple[type[Exception], ...]:
    """What a call of Spark raises if Spark or the catalog fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (Py4JError, PySparkException)


def java_errors(error: Exception) -> list[str]:
    """The class and message of each Java exception of an error of Spark, from the outermost to its last cause. Empty: Java raised none."""
    lines = [line.strip() for line in str(error).splitlines()]
    return [found[1] for line in lines if (found := _JAVA_ERROR.fullmatch(line))]


def is_conflict(error: Exception) -> bool:
    """Whether the catalog, or Iceberg before it asked the catalog, refused a commit: another writer was first."""
    return any(name in raised for raised in java_errors(error) for name in _CONFLICTS)


def first_line(error: Exception) -> str:
    """The message of an error of Spark without traces: that of its last cause, or of the task that could not read its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = next((found[1] for line in lines if (found := _SOURCE_ERROR.fullmatch(line))), None)
    if said is not None:
        return said[:_MESSAGE_MAX]
    return [type(error).__name__, *lines[:1], *java_errors(error)][-1][:_MESSAGE_MAX]
