"""The commands of docs/how-to/upgrade.md that move tables to a new catalog."""

import os
import subprocess
import sys
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from tests.fixtures.readme import CATALOG_URI, pieces
from tests.servers.icecore import PROGRAM, Icecore, clean_environment, icecore
from tests.servers.paths import ROOT

PAGE = pieces((ROOT / "docs" / "how-to" / "upgrade.md").read_text())
PEOPLE = Schema(NestedField(1, "name", StringType(), required=False))
SECONDS_MAX = 120


def run(server: Icecore, folder: Path, piece: str, *, python: bool) -> None:
    text = (
        PAGE[piece]
        .replace(CATALOG_URI, server.catalog_uri)
        .replace("/path/to/old", str(folder / "old"))
        .replace("/path/to/new", str(folder / "new"))
    )
    done = subprocess.run(
        [sys.executable, "-c", text] if python else ["bash", "-e", "-c", text],
        capture_output=True, text=True, timeout=SECONDS_MAX, cwd=folder, check=False,
        env=clean_environment() | {"PATH": os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))},
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr


def test_tables_are_carried_over_to_a_new_catalog(scratch: Path) -> None:
    """Their files stay where they are; nested namespaces are included."""
    with icecore(scratch / "old") as old:
        catalog = load_catalog("old", type="rest", uri=old.catalog_uri, warehouse="demo")
        for namespace in ("town", "town.street"):
            catalog.create_namespace(namespace)
            catalog.create_table(f"{namespace}.people", schema=PEOPLE)
        run(old, scratch, "list tables", python=True)
    with icecore(scratch / "new") as new:
        run(new, scratch, "create warehouse", python=False)
        run(new, scratch, "register tables", python=True)
        catalog = load_catalog("new", type="rest", uri=new.catalog_uri, warehouse="old")
        for namespace in ("town", "town.street"):
            location = catalog.load_table(f"{namespace}.people").metadata_location
            assert location.startswith((scratch / "old" / "warehouse").as_uri())
