"""Rules for files: packages, names, sizes, where SQL is, and that every setting is documented."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from icecore.exit_codes import ExitCode
from icecore.settings import CONFIG_VARIABLE, setting_names

CHECKOUT = Path(__file__).parents[2]
OUTSIDE = {"tests", "benchmarks", "demo"}
SETUPTOOLS = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]
"""The folder of each mapped package in the checkout."""

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
LONG_MODULES: dict[str, str] = {
    "domain/events.py": "one class for each event, and their encoding",
    "publishers/event_data.py": "one type for each kind of event",
}
"""Modules longer than MODULE_LINES_MAX, each with its reason."""

NAMES_REFUSED = {"utils", "util", "helpers", "helper", "common", "base", "misc", "shared", "core", "lib"}

# The beginning of a statement in a string constant or the first part of an f-string.
_STATEMENT = re.compile(
    r"^\s*(SELECT\s+(\*|\w|\()|INSERT\s+INTO\s|UPDATE\s+[\w.\"]+\s+SET\s|DELETE\s+FROM\s|TRUNCATE\s+\w|WITH\s+(RECURSIVE\s+)?\w+\s*(\(|AS)|"
    r"CREATE\s+(TABLE|INDEX|DATABASE|SCHEMA|FUNCTION|TRIGGER)\s|ALTER\s+(TABLE|SYSTEM|DATABASE)\s|DROP\s+(TABLE|DATABASE|INDEX|SCHEMA)\s|"
    r"LISTEN\s+\w+$|NOTIFY\s+\w+|SET\s+(LOCAL|SESSION)\s|LOCK\s+TABLE\s|COPY\s+[\w.]+\s*(\(|FROM|TO))",
    re.IGNORECASE,
)
SPOKEN_WORDS = {
    "icecore/welcome.py": "the line of Spark SQL that a newcomer pastes",
    "pipeline/landed_tables.py": "Spark's SQL, from the columns of the tables",
}
"""Modules with SQL for other engines."""


def modules() -> list[Path]:
    return sorted(module for folder in FOLDERS.values() for module in (CHECKOUT / folder).rglob("*.py"))


def shown(module: Path) -> str:
    return str(module.relative_to(CHECKOUT))


def test_every_folder_with_code_is_a_package_with_one_sentence() -> None:
    folders = {module.parent for module in modules()}
    for folder in sorted(folders):
        first = folder / "__init__.py"
        assert first.exists(), f"{shown(folder)} has no __init__.py"
        docstring = ast.get_docstring(ast.parse(first.read_text(encoding="utf-8")))
        assert docstring is not None, f"{shown(first)} has no docstring"


def test_every_package_is_in_the_wheel() -> None:
    """A folder that is not listed works in a checkout but is missing from the wheel."""
    folders = {path.parent.name: path.parent for path in CHECKOUT.glob("*/__init__.py") if path.parent.name not in OUTSIDE}
    assert set(FOLDERS.values()) == set(folders)
    below = {".".join(first.parent.relative_to(CHECKOUT).parts) for folder in folders.values() for first in folder.rglob("__init__.py")}
    assert {name if name.partition(".")[0] == "icecore" else f"icecore.{name}" for name in below} == set(SETUPTOOLS["packages"])


def test_every_file_that_is_no_module_is_in_the_wheel() -> None:
    """Such as SQL and JSON."""
    patterns = {*SETUPTOOLS["package-data"]["*"], *SETUPTOOLS["package-data"]["icecore.migrations"]}
    found = {
        path
        for folder in FOLDERS.values()
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert set() == {shown(path) for path in found if not any(path.match(pattern) for pattern in patterns)}
    loose = {path for path in found if not (path.parent / "__init__.py").exists()}
    assert {"migrations/functions"} == {shown(path.parent) for path in loose}


def test_every_module_opens_with_a_sentence() -> None:
    for module in modules():
        docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
        assert docstring, f"{shown(module)} has no docstring"
        first = docstring.split("\n\n")[0].strip()
        assert first[-1] in ".?!`:", f"{shown(module)} opens with no sentence: {first!r}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    """A helper function is beside its only user, or in a module with a specific name."""
    assert set() == {shown(module) for module in modules() if module.stem in NAMES_REFUSED or module.parent.name in NAMES_REFUSED}


def test_modules_stay_short_or_say_why_not() -> None:
    """A reason that is no longer needed is removed."""
    long = {shown(module) for module in modules() if len(module.read_text(encoding="utf-8").splitlines()) > MODULE_LINES_MAX}
    assert set(LONG_MODULES) == long


def test_functions_fit_a_screen() -> None:
    """Without their docstrings and decorators."""
    long = set()
    for module in modules():
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > FUNCTION_LINES_MAX:
                    long.add(f"{shown(module)}:{node.lineno} {node.name} has {lines} lines")
    assert set() == long


def test_sql_stands_in_sql_files() -> None:
    """In named blocks, not formatted from parts."""
    found = set()
    for module in modules():
        if shown(module) in SPOKEN_WORDS:
            continue
        tree = ast.parse(module.read_text(encoding="utf-8"))
        docstrings = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }  # Docstrings.
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docstrings
                and _STATEMENT.match(node.value)
            ):
                found.add(f"{shown(module)}:{node.lineno} {node.value.strip()[:60]!r}")
    assert set() == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "select 1",
        "insert into t values (1)",
        "UPDATE icecore.events SET x = 1",
        "DELETE FROM t",
        "create table t (x int)",
    ],
)
def test_a_statement_would_be_found(text: str) -> None:
    """Negative control."""
    assert _STATEMENT.match(text)


@pytest.mark.parametrize("text", ["update", "set-properties", "Create and list warehouses.", "delete", "with its files"])
def test_prose_is_not_taken_for_a_statement(text: str) -> None:
    """Actions and sentences may begin with the same words."""
    assert not _STATEMENT.match(text)


def documented() -> list[str]:
    text = (CHECKOUT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(ICECORE_\w+)` \|", text, re.MULTILINE)


def test_every_setting_is_documented_once_and_no_other() -> None:
    """One row in a table of docs/reference/settings.md each."""
    names = documented()
    assert sorted({*setting_names(), CONFIG_VARIABLE}) == sorted(names)


def test_every_exit_code_is_documented() -> None:
    """In docs/reference/command-line.md."""
    text = (CHECKOUT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert [int(code) for code in ExitCode] == [int(number) for number in re.findall(r"^\| (\d) \|", text, re.MULTILINE)]
