"""Warehouses that are known by what requests called them: bounded, the longest unused out first."""

from uuid import UUID

import pytest

from access import backends
from access.backends import KnownWarehouses
from access.warehouse import Warehouse
from storage.profiles import parse_storage_profile

PROJECT, OTHER_PROJECT = UUID(int=0), UUID(int=1)
WAREHOUSE = Warehouse(UUID(int=2), "demo", PROJECT, parse_storage_profile({"type": "local", "directory": "/demo"}), None, False)


def test_the_longest_unused_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that nobody asks for again take no room for good."""
    monkeypatch.setattr(backends, "WAREHOUSES_KNOWN_MAX", 2)
    known = KnownWarehouses()
    for name in ("a", "b"):
        known.put((PROJECT, name), WAREHOUSE)
    assert known.get((PROJECT, "a")) is WAREHOUSE
    known.put((PROJECT, "c"), WAREHOUSE)
    assert [WAREHOUSE, None, WAREHOUSE] == [known.get((PROJECT, name)) for name in ("a", "b", "c")]


def test_a_name_is_one_project_s() -> None:
    known = KnownWarehouses()
    known.put((PROJECT, "demo"), WAREHOUSE)
    assert known.get((OTHER_PROJECT, "demo")) is None
