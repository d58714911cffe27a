"""Fixtures of the tests of history."""

from collections.abc import AsyncIterator

import pytest

from icecore.compose import Application
from tests.fixtures.command_runs import EVERY_KIND, CommandRun
from tests.integration.history.serving import Served, serving


@pytest.fixture
async def served(catalog: Application) -> AsyncIterator[Served]:
    """A served catalog on a new database. Its log is as after the creation of the warehouse `demo`."""
    async with serving(catalog) as opened:
        yield opened


@pytest.fixture
async def run(catalog: Application) -> CommandRun:
    """Runs commands on the catalog."""
    return await CommandRun.on(catalog)


@pytest.fixture
async def history(run: CommandRun) -> CommandRun:
    """The same, with every kind of event in the log."""
    for step in EVERY_KIND:
        await run.step(step)
    return run
