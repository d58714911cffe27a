"""Which faults make a quick, a long and a control run, and whether a run counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.reliability.cluster import Cluster, private_cluster
from benchmarks.reliability.nemesis import Nemesis
from benchmarks.reliability.run import FAULTS, Report, prepare_template, run, scratch_directory
from benchmarks.reliability.sabotage import Control

QUICK_STORM_SECONDS = 25.0
CONTROL_SECONDS = 4.0
_GRACEFUL_STOPS = 3
_GRACEFUL_PAUSE_SECONDS = 2.0
_CALM_SECONDS = 2.0
KILLS_IN_FLIGHT_MIN = 30
ACKNOWLEDGED_MIN = 5_000


@asynccontextmanager
async def private_place() -> AsyncIterator[Cluster]:
    """A private Postgres with the template every run starts from."""
    async with private_cluster() as cluster:
        with scratch_directory() as warehouse:
            await prepare_template(cluster, warehouse)
            yield cluster


async def quick_proof(cluster: Cluster, seed: str) -> Report:
    """Every kind of fault, once or a few times."""

    async def plan(nemesis: Nemesis) -> None:
        await nemesis.storm(QUICK_STORM_SECONDS)
        await _restarts(nemesis)
        await nemesis.outages()

    return await run(cluster, "quick", seed, plan, faults=FAULTS)


async def long_proof(cluster: Cluster, seed: str, minutes: float) -> Report:
    """The same again and again, for at least that many minutes and until it counts."""

    async def plan(nemesis: Nemesis) -> None:
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until or not nemesis.counts(KILLS_IN_FLIGHT_MIN, ACKNOWLEDGED_MIN):
            await nemesis.storm(60.0)
            await _restarts(nemesis)
            await nemesis.outages()

    return await run(cluster, "long", seed, plan, faults=FAULTS)


async def run_control(cluster: Cluster, seed: str, control: Control) -> Report:
    """A short run of the product broken in one way."""
    plan = _CONTROL_PLANS.get(control.name, _nothing_but_load)
    return await run(cluster, f"control: {control.name}", seed, plan, control=control)


async def _restarts(nemesis: Nemesis) -> None:
    """Workers asked to stop under load, as a rolling restart does."""
    for _ in range(_GRACEFUL_STOPS):
        await nemesis.stop_worker()
        await asyncio.sleep(_GRACEFUL_PAUSE_SECONDS)


async def _nothing_but_load(nemesis: Nemesis) -> None:
    await asyncio.sleep(CONTROL_SECONDS)


async def _kills(nemesis: Nemesis) -> None:
    for _ in range(3):
        await asyncio.sleep(CONTROL_SECONDS / 3)
        await nemesis.kill_worker()
    await asyncio.sleep(_CALM_SECONDS)


async def _rude_stops(nemesis: Nemesis) -> None:
    for _ in range(3):
        await asyncio.sleep(CONTROL_SECONDS / 3)
        await nemesis.stop_worker(rudely=True)
    await asyncio.sleep(_CALM_SECONDS)


async def _lost_answers(nemesis: Nemesis) -> None:
    for _ in range(20):
        await asyncio.sleep(CONTROL_SECONDS / 20)
        await nemesis.lose_answers()
    await asyncio.sleep(_CALM_SECONDS)


async def _frozen(nemesis: Nemesis) -> None:
    await asyncio.sleep(1.0)
    await nemesis.freeze_postgres()
    await asyncio.sleep(_CALM_SECONDS)


_CONTROL_PLANS: dict[str, Callable[[Nemesis], Awaitable[None]]] = {
    "answered before the commit": _kills,
    "a lost answer told as a conflict": _lost_answers,
    "a lost answer told as nothing done": _lost_answers,
    "a lost answer told as a fault": _lost_answers,
    "workers killed under the name of a stop": _rude_stops,
    "no limit on silence": _frozen,
}
