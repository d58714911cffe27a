"""The quick form of benchmarks/reliability: promises kept while everything breaks, and each check red where its promise is broken."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import pytest
import uvloop

from benchmarks.reliability.checks import CHECKS
from benchmarks.reliability.cluster import Cluster
from benchmarks.reliability.proof import private_place, quick_proof, run_control
from benchmarks.reliability.run import Report
from benchmarks.reliability.sabotage import CONTROLS, Control

SEED = "1"
TOGETHER = 3

_T = TypeVar("_T")


class Place:
    """The module's private Postgres, the loop everything about it runs on, and the controls' reports."""

    def __init__(self, cluster: Cluster, runner: asyncio.Runner) -> None:
        self.cluster = cluster
        self._runner = runner
        self._reports: dict[str, Report] = {}

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(work)

    def control(self, name: str) -> Report:
        """The report of a control; all are run when the first is asked for, some side by side: each has a database of its own."""
        if not self._reports:
            self._reports = self.run(self._controls())
        return self._reports[name]

    async def _controls(self) -> dict[str, Report]:
        room = asyncio.Semaphore(TOGETHER)

        async def one(control: Control) -> Report:
            async with room:
                return await run_control(self.cluster, SEED, control)

        together = [control for control in CONTROLS.values() if not control.breaks_postgres]
        async with asyncio.TaskGroup() as group:
            running = {control.name: group.create_task(one(control)) for control in together}
        reports = {name: task.result() for name, task in running.items()}
        for control in CONTROLS.values():
            if control.breaks_postgres:
                reports[control.name] = await one(control)
        return reports


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A Postgres that may be crashed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        opened = AsyncExitStack()

        async def open_() -> Cluster:
            return await opened.enter_async_context(private_place())

        yield Place(runner.run(open_()), runner)
        runner.run(opened.aclose())


def test_no_promise_breaks_while_everything_else_does(place: Place) -> None:
    """kill -9, crashes, lost answers, fault points, a frozen, stopped and full Postgres under 32 committers: every check stays green."""
    report = place.run(quick_proof(place.cluster, SEED))
    print("\n" + "\n".join(report.lines()))
    assert set() == report.red, "\n".join(report.lines())
    assert 2 == report.workers, "only one worker committed: nothing was proved about two"
    assert report.history.acknowledged > 0
    assert report.history.kills_in_flight() > 0


@pytest.mark.parametrize("name", CONTROLS)
def test_a_broken_promise_is_seen(place: Place, name: str) -> None:
    """The product broken in this one way turns this check red, and none that has nothing to do with it."""
    control = CONTROLS[name]
    report = place.control(name)
    print("\n" + "\n".join(report.lines()))
    assert control.check in report.red, "\n".join(report.lines())
    assert set() == report.red - {control.check} - control.follows, "\n".join(report.lines())


def test_every_check_has_its_control() -> None:
    """A check that no control turns red would be decoration."""
    assert {*CHECKS, "models"} == {control.check for control in CONTROLS.values()}
