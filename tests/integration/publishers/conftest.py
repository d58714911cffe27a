"""Fixtures of the tests of publishing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.catalog import opened_catalog
from tests.integration.publishers.publishing import Nursery, Writer, log_ids


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Starts publishing processes."""
    opened = Nursery()
    yield opened
    opened.close()


@pytest.fixture
async def log(database: str, tmp_path: Path) -> list[str]:
    """A log of about thirty events. Returns their ids."""
    async with opened_catalog(database, tmp_path / "warehouse") as catalog:
        writer = await Writer.on(catalog)
        for _ in range(25):
            await writer.step()
    return log_ids(database)
