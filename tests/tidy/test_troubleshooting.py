"""docs/how-to/troubleshooting.md: every message is one of the code, and every response one of its errors."""

import ast
import functools
import re

import pytest

from icecore.domain.errors import CatalogError
from icecore.exit_codes import ExitCode
from tests.servers.paths import ROOT
from tests.tidy.test_docs import PACKAGES

PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
ROWS = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in PAGE.splitlines() if line.startswith("| `")]
MESSAGES = {cells[0].strip("`"): cells[1] for cells in ROWS}
VALUE = "…"
PROBLEMS_MIN = 20


@functools.cache
def templates() -> list[str]:
    """The texts in the code, with `…` for each value in them. Some errors have their docstring as message."""
    found = []
    for package in PACKAGES:
        for module in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = (str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
                    found.append("".join(parts))
    return found


def is_in_the_code(message: str) -> bool:
    """Whether one text of the code has all parts of the message, in their order, or is most of it with a value at its beginning."""
    parts = [re.escape(part.strip()) for part in message.split(VALUE)]
    pattern = re.compile(".*".join(parts))
    if any(pattern.search(text) for text in templates()):
        return True
    own = (text for text in templates() if len(text.replace(VALUE, "")) > len(message) / 2)
    return any(re.fullmatch(".*".join(map(re.escape, text.split(VALUE))), message) for text in own)


@pytest.mark.parametrize("message", MESSAGES)
def test_message_is_in_the_code(message: str) -> None:
    """As it is on the page."""
    assert len(message.replace(VALUE, "")) >= 15
    assert is_in_the_code(message)


@pytest.mark.parametrize(
    "message", ["The database cannot be found: …", "Port … of … is in use by another process", "Warehouse … is missing"]
)
def test_other_messages_would_be_found(message: str) -> None:
    """Negative control."""
    assert not is_in_the_code(message)


@pytest.mark.parametrize("message", MESSAGES)
def test_response_exists(message: str) -> None:
    """An exit code, or a status with its type."""
    code, _, kind = MESSAGES[message].partition(" ")
    if not kind:
        assert int(code) in {*ExitCode}
    elif kind != "`unsupported_grant_type`":
        assert (int(code), kind.strip("`")) in CatalogError._by_status_and_type


def test_page_has_the_frequent_problems() -> None:
    """With messages."""
    assert len(MESSAGES) == len(ROWS) >= PROBLEMS_MIN
