"""docs/reference/landed-tables.md: the tables that the pipeline writes, with their columns and types."""

import re

import pytest

from icecore.pipeline.landed_tables import LANDED, LandedTable
from tests.servers.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "landed-tables.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_the_page_has_every_table() -> None:
    assert [table.name for table in LANDED] == [*SECTIONS]


@pytest.mark.parametrize("table", LANDED, ids=lambda table: table.name)
def test_the_page_has_every_column(table: LandedTable) -> None:
    """In the order of the table."""
    assert [*table.columns.items()] == re.findall(r"^\| `(\w+)` \| ([^|]+) \|", SECTIONS[table.name], re.MULTILINE)
