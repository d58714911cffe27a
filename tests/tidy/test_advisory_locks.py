"""The numbers of advisory locks are only in database/advisory_locks.py, so that each has one purpose."""

import re
from pathlib import Path

import pytest

from icecore.database.advisory_locks import AdvisoryLock
from icecore.migrations.apply import load_functions

CHECKOUT = Path(__file__).parents[2]
REGISTRY = CHECKOUT / "database" / "advisory_locks.py"
# A function of Postgres that is called with a number, and a constant for a lock that is set to one.
_NUMBER = re.compile(r"pg_(?:try_)?advisory_\w*lock\w*\(\s*(-?\d+)|_LOCK\b[^=\n]*=\s*(-?\d+)", re.IGNORECASE)


def lock_numbers(text: str) -> set[int]:
    """The numbers of advisory locks in a text: those of the registry, and arguments of lock functions."""
    plain = re.sub(r"(?<=\d)_(?=\d)", "", text)
    # pg_locks has the lower half of a number in a separate column.
    named = {lock.value for lock in AdvisoryLock if re.search(rf"(?<!\d)({lock.value}|{lock.value & 0xFFFFFFFF})(?!\d)", plain)}
    return named | {int(first or second) for first, second in _NUMBER.findall(plain)}


def source_files() -> list[Path]:
    """Our modules and SQL files, except the functions of the database, which can use only the number."""
    folders = [first.parent for first in CHECKOUT.glob("*/__init__.py")] + [CHECKOUT / name for name in ("tests", "benchmarks", "demo")]
    found = {file for folder in folders for kind in ("*.py", "*.sql") for file in folder.rglob(kind)}
    functions = set((CHECKOUT / "migrations" / "functions").iterdir())
    assert functions <= found
    return sorted(found - functions - {REGISTRY, Path(__file__)})


def test_no_number_of_a_lock_stands_outside_the_registry() -> None:
    """In code, SQL and tests."""
    assert {} == {str(file.relative_to(CHECKOUT)): found for file in source_files() if (found := lock_numbers(file.read_text("utf-8")))}


@pytest.mark.parametrize(
    "text",
    [
        "select pg_advisory_xact_lock(17)",
        "SELECT pg_try_advisory_lock_shared(\n  4936203999)",
        'connection.execute("select pg_advisory_unlock(-5)")',
        "    LEADER_LOCK: int = 4936203999",
        "WHATEVER = 4_936_203_174",
        f"where objid = ({AdvisoryLock.REBUILD:d} & 4294967295)",
        f"where classid = 1 and objid = {AdvisoryLock.APPEND & 0xFFFFFFFF}",
    ],
)
def test_a_number_would_be_found(text: str) -> None:
    """In SQL, in a string and in a constant."""
    assert lock_numbers(text)


@pytest.mark.parametrize("text", ["select pg_advisory_lock(%(lock)s)", "LEADER_LOCK = AdvisoryLock.REBUILD", "port = 49362", "14936203174"])
def test_other_text_is_not_taken_for_a_number(text: str) -> None:
    """Parameters and members of the registry are permitted."""
    assert set() == lock_numbers(text)


def test_functions_take_the_lock_of_the_registry() -> None:
    """Functions take only the append lock."""
    assert {AdvisoryLock.APPEND.value} == lock_numbers(load_functions())
