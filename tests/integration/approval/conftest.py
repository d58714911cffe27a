"""Fixtures of the tests of approval."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.integration.approval.judging import Approver, Judge, asking


@pytest.fixture
def judge() -> Judge:
    """Allows everything until it is told otherwise."""
    return Judge()


@pytest.fixture
def server(database: str, tmp_path: Path, judge: Judge) -> Iterator[CatalogServer]:
    """A server that asks the judge."""
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge, timeout_seconds=1.0)) as opened:
        yield opened


@pytest.fixture
def client(server: CatalogServer, judge: Judge) -> Iterator[Approver]:
    """A client of it; the namespace `a` with the table `t` is there, and the judge has forgotten that."""
    opened = Approver(server.url)
    assert opened.create_namespace("a", owner="me").status == 200
    assert opened.create_table(["a"], "t").status == 200
    judge.shown.clear()
    yield opened
    opened.close()
