"""The programs of docs/how-to/importing-tables.md, and the command of upgrade.md for tables of an old build."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from icecore.pipeline import session
from tests.fixtures.readme import CATALOG_URI, pieces, statements
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore
from tests.servers.paths import ROOT
from tests.servers.spark import spark_4_1, spark_shell

HOW_TO = ROOT / "docs" / "how-to"
IMPORT = pieces((HOW_TO / "importing-tables.md").read_text())
UPGRADE = pieces((HOW_TO / "upgrade.md").read_text())
OLD_URI = "https://old.example/catalog"
PEOPLE = pa.table({"name": ["Ada", "Grace"]})
SECONDS_MAX = 120

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Imported:
    """The new server, with the tables of the old catalog registered in the warehouse `lake`. `old` is the folder of the old one."""

    server: Icecore
    old: Path

    @property
    def catalog(self) -> Catalog:
        return load_catalog("new", type="rest", uri=self.server.catalog_uri, warehouse="lake")


def run(command: list[str], folder: Path) -> str:
    environment = clean_environment() | {"PATH": os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=folder, env=environment, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def imported(scratch: Path) -> Iterator[Imported]:
    """The old catalog has stopped."""
    with icecore(scratch / "old") as old:
        catalog = load_catalog("old", type="rest", uri=old.catalog_uri, warehouse="demo")
        for namespace in ("town", "town.street"):
            catalog.create_namespace(namespace)
            catalog.create_table(f"{namespace}.people", schema=PEOPLE.schema).append(PEOPLE)
        run([sys.executable, "-c", IMPORT["list tables"].replace(OLD_URI, old.catalog_uri)], scratch)
    with icecore(scratch / "new") as new:
        create = UPGRADE["create warehouse"].replace("/path/to/old", str(scratch / "old")).replace("/path/to/new", str(scratch / "new"))
        run(["bash", "-e", "-c", create], scratch)
        run([sys.executable, "-c", IMPORT["register tables"].replace(CATALOG_URI, new.catalog_uri)], scratch)
        check = [sys.executable, "-c", IMPORT["check import"].replace(CATALOG_URI, new.catalog_uri)]
        assert "" == run(check, scratch)
        lake = load_catalog("lake", type="rest", uri=new.catalog_uri, warehouse="lake")
        lake.rename_table("town.people", "town.persons")
        assert "different: town.people\n" == run(check, scratch)
        lake.rename_table("town.persons", "town.people")
        yield Imported(new, scratch / "old" / "warehouse")


def test_tables_are_carried_over_to_a_new_catalog(imported: Imported) -> None:
    """Their files stay where they are; nested namespaces are included. Rows can be read and added."""
    for namespace in ("town", "town.street"):
        table = imported.catalog.load_table(f"{namespace}.people")
        assert table.metadata_location.startswith(imported.old.as_uri())
        table.append(PEOPLE)
        assert 4 == table.scan().to_arrow().num_rows


def test_a_table_is_imported_again(imported: Imported) -> None:
    """Here from an earlier file of its own: the state is that of the file."""
    table = imported.catalog.load_table("town.people")
    table.append(PEOPLE)
    metadata_location = table.metadata.metadata_log[-1].metadata_file
    rows = table.scan().to_arrow().num_rows
    scope = {"new": imported.catalog, "metadata_location": metadata_location}
    exec(IMPORT["import again"], scope)
    assert metadata_location == table.refresh().metadata_location
    assert rows - 2 == table.scan().to_arrow().num_rows


def test_a_folder_is_imported_by_its_newest_file(imported: Imported) -> None:
    """The tenth is newer than the ninth."""
    catalog = imported.catalog
    catalog.create_namespace("village")
    table = catalog.create_table("village.people", schema=PEOPLE.schema, location=f"{imported.old.as_uri()}/village/people")
    for number in range(10):
        with table.transaction() as change:
            change.set_properties(number=str(number))
    catalog.drop_table("village.people")
    program = (
        IMPORT["newest metadata file"].replace("s3://lake/town/people", table.location()).replace(CATALOG_URI, imported.server.catalog_uri)
    )
    scope: dict[str, Catalog] = {}
    exec(program.replace('"town"', '"village"').replace("town.people", "village.people"), scope)
    assert "9" == catalog.load_table("village.people").properties["number"]


def test_spark_finds_and_registers_a_file(imported: Imported, scratch: Path) -> None:
    """The statements of the page. The table is dropped in between, because both of Spark's catalogs are this server."""
    catalog = imported.catalog
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", schema=PEOPLE.schema)
    table.append(PEOPLE)
    settings = {
        name: value
        for each in ("old", "icecore")
        for name, value in session.catalog_settings(each, imported.server.catalog_uri, "lake", cache_enabled="false").items()
    }
    with spark_shell(spark_4_1(), settings, scratch / "spark") as shell:
        ((file,),) = shell.sql(IMPORT["spark metadata file"])
        assert table.refresh().metadata_location == file
        catalog.drop_table("shop.orders")
        for statement in statements(IMPORT["spark register"]):
            shell.sql(re.sub(r"'s3:[^']*'", f"'{file}'", statement))
        assert [["Ada"], ["Grace"]] == shell.sql("SELECT name FROM icecore.shop.orders ORDER BY name")
