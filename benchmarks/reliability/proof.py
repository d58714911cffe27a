"""The faults of a quick, a long and a control run, and whether a run counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from benchmarks.reliability.cluster import Cluster, private_cluster
from benchmarks.reliability.fault_injection import CONTROLS, Control
from benchmarks.reliability.nemesis import Nemesis
from benchmarks.reliability.run import FAULTS, Report, prepare_template, run, scratch_directory

QUICK_STORM_SECONDS = 25.0
POOLER_STORM_SECONDS = 12.0
# A short run may miss a control that depends on the moment of a fault; the next run is longer.
CONTROL_SECONDS = (4.0, 8.0, 16.0)
CONTROLS_TOGETHER = 3
_GRACEFUL_STOPS = 3
_GRACEFUL_PAUSE_SECONDS = 2.0
_CALM_SECONDS = 2.0
KILLS_IN_FLIGHT_MIN = 30
ACKNOWLEDGED_MIN = 5_000


@asynccontextmanager
async def private_place() -> AsyncIterator[Cluster]:
    """A private Postgres with the template for every run."""
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


async def pooler_proof(cluster: Cluster, seed: str, pool_mode: str) -> Report:
    """The faults of Postgres behind a PgBouncer, and of the connections to it. No fault points, so that a worker always serves."""

    async def plan(nemesis: Nemesis) -> None:
        await nemesis.storm(POOLER_STORM_SECONDS)
        await nemesis.outages()

    return await run(cluster, f"PgBouncer, {pool_mode} mode", seed, plan, pool_mode=pool_mode)


async def long_proof(cluster: Cluster, seed: str, minutes: float) -> Report:
    """All faults repeatedly, for at least that many minutes and until the run counts."""

    async def plan(nemesis: Nemesis) -> None:
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until or not nemesis.counts(KILLS_IN_FLIGHT_MIN, ACKNOWLEDGED_MIN):
            await nemesis.storm(60.0)
            await _restarts(nemesis)
            await nemesis.outages()

    return await run(cluster, "long", seed, plan, faults=FAULTS)


async def run_control(cluster: Cluster, seed: str, control: Control, pool_mode: str | None = None) -> Report:
    """Runs with the product broken in one way, each longer, until its check is red. Returns the last report."""
    plan = _CONTROL_PLANS.get(control.name, _nothing_but_load)
    for seconds in CONTROL_SECONDS:
        report = await run(cluster, f"control: {control.name}", seed, partial(plan, seconds), control=control, pool_mode=pool_mode)
        if control.check in report.red:
            break
    return report


async def run_controls(
    cluster: Cluster, seed: str, names: Sequence[str], *, together: int = CONTROLS_TOGETHER, pool_mode: str | None = None
) -> AsyncIterator[tuple[Control, Report | Exception]]:
    """Each control's report or error, in the order of completion. Some run concurrently, because each has its own database."""
    room = asyncio.Semaphore(together)

    async def one(control: Control) -> tuple[Control, Report | Exception]:
        async with room:
            try:
                return control, await run_control(cluster, seed, control, pool_mode)
            except Exception as error:
                return control, error

    controls = [CONTROLS[name] for name in names]
    for running in asyncio.as_completed([one(control) for control in controls if not control.breaks_postgres]):
        yield await running
    for control in controls:
        if control.breaks_postgres:
            yield await one(control)


async def _restarts(nemesis: Nemesis) -> None:
    """Graceful stops of workers under load, as in a rolling restart."""
    for _ in range(_GRACEFUL_STOPS):
        await nemesis.stop_worker()
        await asyncio.sleep(_GRACEFUL_PAUSE_SECONDS)


async def _nothing_but_load(seconds: float, nemesis: Nemesis) -> None:
    await asyncio.sleep(seconds)


async def _kills(seconds: float, nemesis: Nemesis) -> None:
    for _ in range(3):
        await asyncio.sleep(seconds / 3)
        await nemesis.kill_worker()
    await asyncio.sleep(_CALM_SECONDS)


async def _rude_stops(seconds: float, nemesis: Nemesis) -> None:
    for _ in range(3):
        await asyncio.sleep(seconds / 3)
        await nemesis.stop_worker(rudely=True)
    await asyncio.sleep(_CALM_SECONDS)


async def _lost_responses(seconds: float, nemesis: Nemesis) -> None:
    for _ in range(20):
        await asyncio.sleep(seconds / 20)
        await nemesis.lose_responses()
    await asyncio.sleep(_CALM_SECONDS)


async def _frozen(seconds: float, nemesis: Nemesis) -> None:
    await asyncio.sleep(seconds / 4)
    await nemesis.freeze_postgres()
    await asyncio.sleep(_CALM_SECONDS)


_CONTROL_PLANS: dict[str, Callable[[float, Nemesis], Awaitable[None]]] = {
    "answered before the commit": _kills,
    "a lost response reported as a conflict": _lost_responses,
    "a lost response reported as nothing done": _lost_responses,
    "a lost response reported as a fault": _lost_responses,
    "workers killed under the name of a stop": _rude_stops,
    "no limit on silence": _frozen,
}
