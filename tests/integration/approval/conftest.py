"""Fixtures of the tests of approval."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.catalog import CatalogServer, served_catalog
from tests.integration.approval.judging import Approver, Judge, asking


@pytest.fixture
def judge() -> Judge:
    """A hook that allows everything by default."""
    return Judge()


@pytest.fixture
def server(database: str, tmp_path: Path, judge: Judge) -> Iterator[CatalogServer]:
    """A server with the judge as its hook."""
    with served_catalog(database, tmp_path / "warehouse", prepare=asking(judge, timeout_seconds=1.0)) as opened:
        yield opened


@pytest.fixture
def client(server: CatalogServer, judge: Judge) -> Iterator[Approver]:
    """A client of it. The namespace `a` with the table `t` exists, and the judge has no records of their creation."""
    opened = Approver(server.url)
    assert opened.create_namespace("a", owner="me").status == 200
    assert opened.create_table(["a"], "t").status == 200
    judge.shown.clear()
    yield opened
    opened.close()
