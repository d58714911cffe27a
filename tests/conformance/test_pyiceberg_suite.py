"""PyIceberg 0.12.0's own integration suite, unchanged: against local files always, with Spark Connect and S3 in the long form."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.conformance.reports import Outcome, outcomes
from tests.conformance.target import Target
from tests.long_form import LONG
from tests.servers.icecore import icecore, open_directory
from tests.servers.moto import S3, moto_s3
from tests.servers.paths import ROOT
from tests.servers.pyiceberg_suite import Suite, pyiceberg_suite
from tests.servers.spark import spark_connect

HERE = ROOT / "tests" / "conformance" / "pyiceberg"
FORM = "full" if LONG else "local"
SUITE_SECONDS_MAX = 3_600
OUTPUT_SHOWN_MAX = 4_000
TEXT_SHOWN_MAX = 400
WAREHOUSE = "suite"

# Against local files, 567 tests need only a catalog. One needs another namespace separator and one a warehouse on S3: both run separately
# below. test_catalog.py adds 38 cases for a catalog of PyIceberg's settings.
PASSED_MIN = {"local": 567 - 2 + 38, "full": 1_060}

# The location of a table's statistics in one of the suite's tests. The file is not read.
STATISTICS = "tests/integration/test_statistics_operations.py::test_manage_statistics[session_catalog]"
SEPARATOR = "tests/integration/test_catalog.py::test_rest_custom_namespace_separator"
STATISTICS_LOCATION = "s3://bucket/warehouse"

# Tests that the suite skips for every catalog.
SKIPPED = {
    "test_namespace_with_slash",
    "test_table_name_with_slash",
    "test_bodo_nan",
    "test_pyarrow_batches_not_nan_count",
    "test_pyarrow_not_nan_count",
    "test_ray_not_nan_count",
    "test_v3_write_and_read_row_lineage",
}

pytestmark = pytest.mark.timeout(SUITE_SECONDS_MAX)


@pytest.fixture(scope="module")
def suite_outcomes(target: Target, scratch: Path) -> list[Outcome]:
    """The outcome of every test of the suite that is not deselected, run on an empty catalog."""
    suite = pyiceberg_suite(full=LONG)
    if not LONG:
        target.add_local_warehouse(WAREHOUSE, scratch / "warehouse")
        _create_default_namespace(target, WAREHOUSE)
        return _run(suite, _variables(target, suite, WAREHOUSE, FORM), scratch, "tests/integration")
    with moto_s3(scratch) as s3:
        target.add_s3_warehouse(WAREHOUSE, s3, (STATISTICS_LOCATION,))
        _create_default_namespace(target, WAREHOUSE)
        spark = spark_connect(suite.python, catalog_uri=target.uri, warehouse=WAREHOUSE, s3=s3, directory=scratch / "spark")
        with spark as address:
            variables = _variables(target, suite, WAREHOUSE, FORM, s3) | {"ICECORE_SUITE_SPARK": address}
            _provision(suite, variables)
            return _run(suite, variables, scratch, "tests/integration")


def _variables(target: Target, suite: Suite, warehouse: str, form: str, s3: S3 | None = None) -> dict[str, str]:
    """The environment variables with the servers' addresses."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ICECORE_", "PYICEBERG_"))}
    variables = clean | {
        "ICECORE_SUITE_URI": target.uri,
        "ICECORE_SUITE_WAREHOUSE": warehouse,
        "ICECORE_SUITE_DESELECTED": str(HERE / "deselected.toml"),
        "ICECORE_SUITE_FORM": form,
        "PYTHONPATH": f"{HERE}{os.pathsep}{suite.directory}",
        "PYTHONDONTWRITEBYTECODE": "1",
        # test_catalog.py takes another catalog from PyIceberg's own settings.
        "PYICEBERG_TEST_CATALOG": "settings",
        "PYICEBERG_CATALOG__SETTINGS__URI": target.uri,
        "PYICEBERG_CATALOG__SETTINGS__WAREHOUSE": warehouse,
    }
    if s3:
        variables |= {"ICECORE_SUITE_S3": s3.endpoint, "PYICEBERG_CATALOG__SETTINGS__S3__ENDPOINT": s3.endpoint, **s3.environment}
    return variables


def _run(suite: Suite, variables: dict[str, str], scratch: Path, *tests: str) -> list[Outcome]:
    report = scratch / "suite.xml"
    report.unlink(missing_ok=True)
    command = [str(suite.python), "-m", "pytest", "-p", "rest_overlay", "-p", "no:cacheprovider", "-q", "--tb=short", "-m", "integration"]
    command += [*tests, f"--junitxml={report}", f"--basetemp={scratch / 'pytest'}"]
    done = subprocess.run(
        command, cwd=suite.directory, env=variables, capture_output=True, text=True, timeout=SUITE_SECONDS_MAX, check=False
    )
    if not report.exists():
        pytest.fail(f"the suite did not run:\n{done.stdout[-OUTPUT_SHOWN_MAX:]}\n{done.stderr[-OUTPUT_SHOWN_MAX:]}", pytrace=False)
    return list(outcomes(report))


def _create_default_namespace(target: Target, warehouse: str) -> None:
    """The suite requires it."""
    RestCatalog("target", uri=target.uri, warehouse=warehouse).create_namespace("default")


def _provision(suite: Suite, variables: dict[str, str]) -> None:
    """Runs the suite's own provisioning with Spark, without the part for Hive."""
    script = (suite.directory / "dev" / "provision.py").read_text()
    without_hive = re.sub(r'    "hive": load_catalog\(.*?\n    \),\n', "", script, flags=re.DOTALL)
    program = "import rest_overlay\nrest_overlay.redirect()\n" + without_hive
    done = subprocess.run(
        [str(suite.python), "-c", program],
        cwd=suite.directory,
        env=variables,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(
            f"the suite's provisioning failed:\n{done.stdout[-OUTPUT_SHOWN_MAX:]}\n{done.stderr[-OUTPUT_SHOWN_MAX:]}", pytrace=False
        )


def test_no_test_of_the_suite_fails(suite_outcomes: list[Outcome]) -> None:
    assert {} == {outcome.name: outcome.text[-TEXT_SHOWN_MAX:] for outcome in suite_outcomes if outcome.kind == "failed"}


def test_the_whole_suite_has_run(suite_outcomes: list[Outcome]) -> None:
    """At least as many tests pass as against Iceberg's own server."""
    assert sum(outcome.kind == "passed" for outcome in suite_outcomes) >= PASSED_MIN[FORM]


def test_only_what_the_suite_itself_skips_is_skipped(suite_outcomes: list[Outcome]) -> None:
    """Every skipped test is in the list."""
    names = {outcome.name.partition("::")[2].partition("[")[0] for outcome in suite_outcomes if outcome.kind == "skipped"}
    assert set() == names - SKIPPED


def test_levels_are_joined_as_the_server_says() -> None:
    """The suite's test of levels joined by a dot passes on a server with that separator."""
    with open_directory() as scratch, icecore(scratch / "data", environment={"ICECORE_NAMESPACE_SEPARATOR": "."}) as server:
        target = Target(server.catalog_uri, server)
        target.add_local_warehouse("separator", scratch / "warehouse")
        suite = pyiceberg_suite(full=LONG)
        ended = _run(suite, _variables(target, suite, "separator", "separator"), scratch, SEPARATOR)
    assert {"passed": ""} == {outcome.kind: outcome.text[-TEXT_SHOWN_MAX:] for outcome in ended}


def test_statistics_may_lie_where_the_warehouse_allows(target: Target, scratch: Path) -> None:
    """The suite's test with a file on S3 passes on a warehouse that allows its location."""
    with moto_s3(scratch) as s3:
        target.add_s3_warehouse("statistics", s3, (STATISTICS_LOCATION,))
        _create_default_namespace(target, "statistics")
        suite = pyiceberg_suite(full=LONG)
        ended = _run(suite, _variables(target, suite, "statistics", "statistics", s3), scratch, STATISTICS)
    assert {"passed": ""} == {outcome.kind: outcome.text[-TEXT_SHOWN_MAX:] for outcome in ended}


def test_after_the_suite_the_log_rebuilds_what_clients_read(suite_outcomes: list[Outcome], target: Target) -> None:
    """`icecore verify` finds no difference after the suite, nor after a rebuild."""
    assert suite_outcomes
    target.check_against_log()
