"""Every dependency has a reason in docs/reference/dependencies.md and a locked version."""

import re
import tomllib

import pytest

from tests.servers.paths import REQUIREMENTS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENT = (ROOT / "docs" / "reference" / "dependencies.md").read_text()


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


SERVER = names(PROJECT["project"]["dependencies"])
OPTIONAL = names([requirement for part in PROJECT["project"]["optional-dependencies"].values() for requirement in part])
DEVELOPMENT = names(PROJECT["dependency-groups"]["dev"] + PROJECT["build-system"]["requires"])


@pytest.mark.parametrize("name", sorted(SERVER | OPTIONAL | DEVELOPMENT))
def test_dependency_has_its_reason(name: str) -> None:
    assert re.search(rf"^\| {re.escape(name)} \|.*\w", DOCUMENT, re.MULTILINE)


def test_no_reason_outlives_its_dependency() -> None:
    """The tables contain no package that pyproject.toml does not have."""
    packages = DOCUMENT.split("## Tools of the tests")[0]
    named = set(re.findall(r"^\| ([a-z0-9-]+) \|", packages, re.MULTILINE)) - {"package"}
    assert set() == named - SERVER - OPTIONAL - DEVELOPMENT


@pytest.mark.parametrize("lock", sorted(path.name for path in REQUIREMENTS.glob("*.lock")))
def test_locks_pin_hashes_and_name_no_registry(lock: str) -> None:
    """Each requirement of a lock has a version and a hash. The registry is configured on the machine."""
    lines = (REQUIREMENTS / lock).read_text().splitlines()
    requirements = [number for number, line in enumerate(lines) if line and not line.startswith((" ", "#"))]
    assert requirements
    assert [] == [lines[number] for number in requirements if "==" not in lines[number] or "--hash=sha256:" not in lines[number + 1]]
    assert [] == [line for line in lines if "://" in line or line.startswith("-")]
