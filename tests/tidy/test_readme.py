"""The README: its targets exist, its links are valid, its examples name this catalog."""

import re

import pytest

from tests.fixtures.readme import CATALOG_URI, EVENTS_URI, README, pieces
from tests.servers.paths import ROOT

LINES_MAX = 10


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)\b", README))))
def test_target_exists(target: str) -> None:
    """Each `make …` of the README is a target."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!https?:)([^)]+)\)", README))))
def test_link_leads_to_a_file(link: str) -> None:
    """Each link inside the repository leads somewhere."""
    assert (ROOT / link.partition("#")[0]).exists()


@pytest.mark.parametrize("name", ["pyiceberg", "spark"])
def test_example_is_short(name: str) -> None:
    """At most ten lines, without imports and output."""
    lines = [line for line in pieces()[name].splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(lines) <= LINES_MAX


@pytest.mark.parametrize("name", sorted(pieces()))
def test_piece_names_this_catalog(name: str) -> None:
    """A piece with an address has that of `make run`, or that of the object store of the examples."""
    known = {CATALOG_URI, f"{CATALOG_URI}/w/lake/v1", EVENTS_URI, "http://127.0.0.1:9000/lake"}
    assert known >= set(re.findall(r"http://[^\s'\"]+", pieces()[name]))
