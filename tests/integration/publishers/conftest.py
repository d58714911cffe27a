"""Fixtures of the tests of telling."""

from collections.abc import Iterator

import pytest

from tests.integration.publishers.telling import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where publishing processes come from."""
    opened = Nursery()
    yield opened
    opened.close()
