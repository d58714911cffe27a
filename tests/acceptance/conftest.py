"""Servers for the acceptance tests: each module has its own Icecore, started as users start it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.pipeline_jobs import PipelineJobs, pipeline_jobs
from tests.servers.icecore import Icecore, icecore, open_directory


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """An empty folder on a path that every account may pass."""
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def jobs(scratch: Path) -> Iterator[PipelineJobs]:
    """For the jobs of the pipeline that need no process of their own."""
    with pipeline_jobs(scratch / "jobs.log") as running:
        yield running


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[Icecore]:
    """A server on an empty data folder, with the warehouse `demo` on local files."""
    with icecore(scratch / "data") as running:
        yield running
