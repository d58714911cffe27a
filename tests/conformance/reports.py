"""Reads the XML reports that JUnit and pytest write."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Outcome:
    """The result of one test: `passed`, `failed` (including errors) or `skipped`, with its message."""

    name: str
    kind: str
    text: str = ""


def outcomes(*reports: Path) -> Iterator[Outcome]:
    """Every test case in the reports."""
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            yield _outcome(case)


def _outcome(case: ElementTree.Element) -> Outcome:
    name = f"{case.get('classname')}::{case.get('name')}"
    for kind, elements in (("failed", ("failure", "error")), ("skipped", ("skipped",))):
        for element in elements:
            found = case.find(element)
            if found is not None:
                return Outcome(name, kind, f"{found.get('message') or ''}\n{found.text or ''}".strip())
    return Outcome(name, "passed")
