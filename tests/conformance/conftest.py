"""The catalog for the ecosystem's suites: a new server of ours, or the one in ICECORE_CONFORMANCE_URI."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.target import Target
from tests.servers.icecore import icecore, open_directory

FOREIGN_URI = os.environ.get("ICECORE_CONFORMANCE_URI")


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """An empty folder for one suite, on a path every account may pass."""
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def target(scratch: Path) -> Iterator[Target]:
    """An empty catalog for one suite. A foreign catalog must be empty."""
    if FOREIGN_URI:
        yield Target(FOREIGN_URI, None)
        return
    with icecore(scratch / "data") as server:
        yield Target(server.catalog_uri, server)
