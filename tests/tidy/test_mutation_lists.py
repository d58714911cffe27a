"""The lists of the mutation tests name files and lines that exist."""

import tomllib

import pytest

from tests.servers.paths import ROOT

LISTS = ROOT / "tests" / "mutation"
TESTS: dict[str, list[str]] = tomllib.loads((LISTS / "tests.toml").read_text())
EQUIVALENT: list[dict[str, str]] = tomllib.loads((LISTS / "equivalent.toml").read_text())["equivalent"]


@pytest.mark.parametrize("path", sorted({*TESTS, *(test for tests in TESTS.values() for test in tests)}))
def test_a_listed_path_exists(path: str) -> None:
    """A missing test would end a run; the tests of a missing module would not be run for the one that it became."""
    file, _, test = path.partition("::")
    assert (ROOT / file).exists()
    assert not test or f"def {test}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("mutant", EQUIVALENT, ids=lambda mutant: mutant["was"])
def test_a_listed_line_is_in_its_module(mutant: dict[str, str]) -> None:
    assert any(mutant["was"].strip() == line.strip() for line in (ROOT / mutant["module"]).read_text().splitlines())
