"""Fields of log records have no names that the redaction takes for those of secrets: it would hide their values."""

import ast

from icecore.logs import REDACTED, redact
from tests.tidy.test_docs import LEVELS, PACKAGES, ROOT


def test_no_field_is_hidden_for_its_name() -> None:
    """Also a count, such as `credentials=3`."""
    fields: dict[str, str] = {}
    for module in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and (node.func.attr in LEVELS and "_log" in ast.unparse(node.func.value))
            ):
                fields |= {word.arg: f"{module.relative_to(ROOT)}:{node.lineno}" for word in node.keywords if word.arg is not None}
    assert len(fields) > 50
    assert {} == {name: line for name, line in fields.items() if redact(None, "info", {name: 7})[name] == REDACTED}
