"""Only the SQL of projections names tables of the read models, each in the files that own or read it; only log/ names the log's tables."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from icecore.domain.read_models.definitions import PART_TOMBSTONES, READ_MODELS
from tests.tidy.test_packaging import FOLDERS

CHECKOUT = Path(__file__).parents[2]

# The file that owns each table, and those that join it. Rebuild and verification use all of them.
READERS = {
    "names": {"names", "endpoint_statistics", "search", "namespace_trees", "namespaces", "tables", "warehouse_content", "warehouses"},
    "warehouses": {"warehouses", "proposals"},
    "namespaces": {"namespaces", "names", "namespace_trees", "protection"},
    "tables": {
        "tables",
        "document_size",
        "names",
        "namespace_trees",
        "protection",
        "snapshot_ancestry",
        "soft_deleted",
        "versions",
    },
    "tasks": {"tasks", "warehouse_content"},
    "task_versions": {"tasks", "task_runs"},
    "task_runs": {"task_runs"},
    "table_parts": {"tables", "document_size", "part_tombstones", "snapshot_ancestry", "preloaded_parts", "versions"},
    "part_tombstones": {"part_tombstones", "tables"},
    "preloaded_parts": {"preloaded_parts"},
    "views": {"views", "document_size", "names", "namespace_trees", "protection", "soft_deleted", "versions"},
    "soft_deleted": {"soft_deleted", "names", "namespace_trees"},
    "proposals": {"proposals"},
    "projects": {"projects"},
    "claims": {"projects", "proposals", "warehouse_content"},
    "location_claims": {"location_claims", "old_metadata_files"},
    "old_metadata_files": {"old_metadata_files", "warehouse_content"},
    "warehouse_statistics": {"statistics"},
    "statistics_tracking": {"statistics"},
    "endpoint_statistics": {"endpoint_statistics"},
    "search_names": {"search"},
    "search_terms": {"search"},
    "search_tracking": {"search"},
}
EVERY_TABLE = {"rebuild", "verify", "verify_records"}
# Most queries read the current generation.
GENERATION = "read_models"
GENERATION_READ_ELSEWHERE = {"log/changes.sql": "one statement before every kept answer asks for the generation and what came into the log"}

# Projections fold, check and join the log.
LOG_READ_ELSEWHERE = {
    "publishers/checkpoints.sql": "where a sink stands is asked beside where the log ends, in one moment",
}
_LOG_TABLE = re.compile(r"\bicecore\s*\.\s*(?:events|commands)\b", re.IGNORECASE)
_TABLE = re.compile(rf"\bicecore\s*\.\s*({'|'.join([*READERS, GENERATION])})\b", re.IGNORECASE)
# The argument is the name of a logger.
_LOGGERS = {"get_logger", "OutageLog"}


def tables_named(file: Path) -> set[str]:
    """The tables of the read models in the SQL of a file or the strings of a module, without docstrings and names of loggers."""
    text = file.read_text(encoding="utf-8")
    texts = [_without_comments(text)] if file.suffix == ".sql" else list(_strings(ast.parse(text)))
    return {found.lower() for each in texts for found in _TABLE.findall(each)}


def names_the_log(file: Path) -> bool:
    """Whether SQL names the log's events or commands."""
    return _LOG_TABLE.search(_without_comments(file.read_text(encoding="utf-8"))) is not None


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def _strings(tree: ast.Module) -> Iterator[str]:
    passed_over = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            passed_over |= {id(given) for given in node.args[:1] if called in _LOGGERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.value


def files(*packages: str) -> list[Path]:
    return sorted(file for package in packages for kind in ("*.py", "*.sql") for file in (CHECKOUT / package).rglob(kind))


def test_no_sql_outside_projections_names_a_table_of_the_read_models() -> None:
    """Other packages call functions of projections, so that tables can change."""
    found = {
        (str(file.relative_to(CHECKOUT)), table)
        for file in files(*sorted(set(FOLDERS.values()) - {"projections", "migrations"}))
        for table in tables_named(file)
    }
    assert found == {(file, GENERATION) for file in GENERATION_READ_ELSEWHERE}


def test_the_tables_of_the_log_are_named_by_the_sql_of_log_and_projections() -> None:
    """Other packages call functions of log/."""
    asking = files(*sorted(set(FOLDERS.values()) - {"log", "projections", "migrations"}))
    assert {str(file.relative_to(CHECKOUT)) for file in asking if file.suffix == ".sql" and names_the_log(file)} == set(LOG_READ_ELSEWHERE)


def test_each_table_is_named_only_by_its_owner_and_its_joins() -> None:
    """A new join needs a decision."""
    found: dict[str, set[str]] = {table: set() for table in READERS}
    for file in files("projections"):
        for table in tables_named(file) - {GENERATION}:
            found[table] |= {file.stem} - EVERY_TABLE
    assert found == READERS


def test_every_read_model_has_an_owner() -> None:
    """Including those that a rebuild fills."""
    assert {model.table for model in (*READ_MODELS, PART_TOMBSTONES)} <= set(READERS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("planted.sql", "-- name: x --\nselect 1 from icecore.tables t"),
        ("planted.sql", "-- name: x --\nDELETE FROM Icecore . Tables"),
        ("planted.py", "async def f(connection):\n    await connection.execute('select 1 from icecore.tables')"),
        ("planted.py", "SIZE = f'{1}: select max(version) from icecore.tables'"),
    ],
)
def test_a_table_that_is_named_would_be_found(name: str, text: str, tmp_path: Path) -> None:
    """In SQL and in the strings of a module."""
    (tmp_path / name).write_text(text)
    assert {"tables"} == tables_named(tmp_path / name)


def test_sql_that_names_the_log_would_be_found(tmp_path: Path) -> None:
    """A comment does not count."""
    planted = tmp_path / "planted.sql"
    planted.write_text("-- icecore.events\nselect max(notification_id) from icecore.events")
    assert names_the_log(planted)
    planted.write_text("-- icecore.events\nselect 1")
    assert not names_the_log(planted)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("planted.sql", "-- icecore.tables\nselect 1 from icecore.events"),
        ("planted.py", '"""Of icecore.tables."""\nlog = structlog.get_logger("icecore.tables")'),
    ],
)
def test_what_is_not_sql_is_left_alone(name: str, text: str, tmp_path: Path) -> None:
    """Comments, docstrings and the names of loggers."""
    (tmp_path / name).write_text(text)
    assert set() == tables_named(tmp_path / name)
