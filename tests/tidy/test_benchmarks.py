"""The benchmarks are consistent: references do not change, every claim has its module, and the README lists them."""

import hashlib
import importlib
import re
from pathlib import Path

import pytest

from benchmarks.claims import CLAIMS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
README = (BENCHMARKS / "README.md").read_text()
# Changing a reference invalidates every recorded rate and older result.
FROZEN = {
    "read_server.py": "5328f12ed16fe5c979eae6d16ff637da37b00010bfe6c7e355848fb1aafe22ea",
    "write_server.py": "390ffa0a66d7001d7258716cee539292fcb025caabfb5ff689188e85d47ede89",
}


@pytest.mark.parametrize(("file", "checksum"), FROZEN.items())
def test_references_are_frozen(file: str, checksum: str) -> None:
    """They have not changed since their rates were recorded."""
    assert checksum == hashlib.sha256((BENCHMARKS / "reference" / file).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", [claim.name for claim in CLAIMS])
def test_every_claim_is_a_module_that_runs(name: str) -> None:
    """The runner calls `run(bench)`."""
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


def test_every_claim_is_explained() -> None:
    """benchmarks/README.md states its goal."""
    assert [] == [claim.name for claim in CLAIMS if f"`{claim.name}`" not in README]


def test_the_readme_is_one_page() -> None:
    """Results are in results/, decisions in docs/decisions/."""
    assert 1_000 > len(README.split())


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE))))
def test_target_exists(target: str) -> None:
    """Each `make …` of it is a target."""
    assert re.search(rf"^{target}:", (BENCHMARKS.parent / "Makefile").read_text(), re.MULTILINE)
