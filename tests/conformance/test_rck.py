"""Apache Iceberg's REST Compatibility Kit 1.11.0: 157 tests, none failing, ten skipped by the kit for every catalog."""

import shutil
from pathlib import Path

import pytest

from tests.conformance.reports import Outcome, outcomes
from tests.conformance.target import Target
from tests.servers import maven
from tests.servers.paths import ROOT, exclusive

POM = ROOT / "tests" / "conformance" / "rck" / "pom.xml"
WAREHOUSE = "rck_warehouse"
KIT_PACKAGE = "org.apache.iceberg.rest.RESTCompatibilityKit"
TESTS_RUN = 157
TEXT_SHOWN_MAX = 400

# CatalogTests uses these two locations; ViewCatalogTests uses JUnit's temporary folders.
KIT_TABLES = (Path("/tmp/ns/tbl"), Path("/tmp/newdb/newtable"))

# The kit skips these for every catalog, because they concern optional features: slashes in names, nested and empty namespaces, unique
# locations.
SKIPPED = {
    "CatalogTests::createAndDropEmptyNamespace",
    "CatalogTests::createTableInUniqueLocation",
    "CatalogTests::listNamespacesWithEmptyNamespace",
    "CatalogTests::listTablesInEmptyNamespace",
    "CatalogTests::namespacePropertiesOnEmptyNamespace",
    "CatalogTests::testDropNamespaceWithNestedNamespace",
    "CatalogTests::testListNestedNamespaces",
    "CatalogTests::testNamespaceWithSlash",
    "CatalogTests::testTableNameWithSlash",
    "ViewCatalogTests::listViewsInEmptyNamespace",
}


@pytest.fixture(scope="module")
def kit(target: Target, scratch: Path) -> list[Outcome]:
    """The outcome of every test of the kit, run on an empty catalog and an empty warehouse."""
    junit = scratch / "junit"
    junit.mkdir()
    reports = scratch / "reports"
    target.add_local_warehouse(WAREHOUSE, scratch / "warehouse", (*(place.as_uri() for place in KIT_TABLES), junit.as_uri()))
    settings = {"rck.uri": target.uri, "rck.warehouse": WAREHOUSE, "rck.scratch": junit, "rck.reports": reports}
    with exclusive("rck"):  # The kit's two tables have fixed locations on this machine.
        _remove_kit_tables()
        maven.run("-q", "test", *(f"-D{name}={value}" for name, value in settings.items()), pom=POM, build=scratch / "target")
        _remove_kit_tables()
    return list(outcomes(*reports.glob("TEST-*.xml")))


def _remove_kit_tables() -> None:
    for place in KIT_TABLES:
        shutil.rmtree(place, ignore_errors=True)


def test_no_test_of_the_kit_fails(kit: list[Outcome]) -> None:
    assert {} == {outcome.name: outcome.text[:TEXT_SHOWN_MAX] for outcome in kit if outcome.kind == "failed"}


def test_the_whole_kit_has_run(kit: list[Outcome]) -> None:
    """An incomplete run must not count as passed."""
    assert len(kit) == TESTS_RUN


def test_only_what_the_kit_itself_skips_is_skipped(kit: list[Outcome]) -> None:
    """Every skipped test is in the list."""
    skipped = {outcome.name.removeprefix(KIT_PACKAGE) for outcome in kit if outcome.kind == "skipped"}
    assert (set(), set()) == (skipped - SKIPPED, SKIPPED - skipped)


def test_after_the_kit_the_log_rebuilds_what_engines_read(kit: list[Outcome], target: Target) -> None:
    """`icecore verify` finds no difference after the kit, nor after a rebuild."""
    assert len(kit) == TESTS_RUN
    target.check_against_log()
