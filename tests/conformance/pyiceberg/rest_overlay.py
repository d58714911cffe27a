"""A pytest plugin that points PyIceberg's own integration suite, unchanged, at another catalog, S3 server and Spark Connect.

    ICECORE_SUITE_URI         the catalog used instead of localhost:8181
    ICECORE_SUITE_WAREHOUSE   the warehouse to use
    ICECORE_SUITE_S3          the S3 endpoint used instead of localhost:9000; without it no S3 settings are given to clients
    ICECORE_SUITE_SPARK       the sc:// address used instead of localhost:15002
    ICECORE_SUITE_DESELECTED  a TOML file; each table has a `reason` and the `tests` to deselect
    ICECORE_SUITE_FORM        `local` or `full`: which tables of that file apply (those with this word in `forms`)

It runs in the suite's own environment, so it imports nothing of ours.
"""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

CATALOG_IN_SUITE = "localhost:8181"
S3_IN_SUITE = "localhost:9000"

_connect_to_catalog = RestCatalog.__init__
_connect_to_spark = SparkSession.Builder.remote


def _catalog_of_this_run(catalog: RestCatalog, name: str, **properties: str) -> None:
    if CATALOG_IN_SUITE in properties.get("uri", ""):
        properties |= {"uri": os.environ["ICECORE_SUITE_URI"], "warehouse": os.environ["ICECORE_SUITE_WAREHOUSE"]}
    if S3_IN_SUITE in properties.get("s3.endpoint", ""):
        if "ICECORE_SUITE_S3" in os.environ:
            properties["s3.endpoint"] = os.environ["ICECORE_SUITE_S3"]
        else:
            properties = {key: value for key, value in properties.items() if not key.startswith("s3.")}
    _connect_to_catalog(catalog, name, **properties)


def _spark_of_this_run(builder: Any, uri: str) -> Any:
    """Fails a test at once without a Spark server. Otherwise each would retry for minutes."""
    address = os.environ.get("ICECORE_SUITE_SPARK")
    if address is None:
        pytest.fail("needs Spark Connect, which this form of the suite does without")
    return _connect_to_spark(builder, address)


def pytest_configure(config: pytest.Config) -> None:
    redirect()


def redirect() -> None:
    """Redirects every client to this run's servers."""
    RestCatalog.__init__ = _catalog_of_this_run  # type: ignore[assignment, method-assign]  # every catalog of the suite is one of this run's
    SparkSession.Builder.remote = _spark_of_this_run


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests in the file. A name that matches no test is an error, so that the list stays up to date."""
    named = _deselected()
    used: set[str] = set()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        names = {item.nodeid.partition("[")[0], item.nodeid, *_fixture_names(item)} & named
        used |= names
        (left_out if names else kept).append(item)
    if used != named:
        raise pytest.UsageError(f"deselected, but not in the suite: {sorted(named - used)}")
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _fixture_names(item: pytest.Item) -> set[str]:
    """`fixture:<name>` for each catalog fixture in the brackets of a parametrised test."""
    parameters = item.nodeid.partition("[")[2].rstrip("]")
    return {f"fixture:{part}" for part in parameters.split("-")}


def _deselected() -> set[str]:
    tables = tomllib.loads(Path(os.environ["ICECORE_SUITE_DESELECTED"]).read_text())
    form = os.environ["ICECORE_SUITE_FORM"]
    return {test for table in tables.values() if form in table["forms"] for test in table["tests"]}
