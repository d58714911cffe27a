"""The faults: what is broken, when and for how long, by a random generator with a seed."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.reliability.cluster import Cluster, Line
from benchmarks.reliability.history import History, Outage
from benchmarks.reliability.server import Server

FROZEN_SECONDS = 4.5
STOPPED_SECONDS = 4.0
FULL_SECONDS = 3.0
_BETWEEN_OUTAGES_SECONDS = 3.0
_SERVING_SECONDS_MAX = 30.0
_LAST_ONE_SHARE = 0.25


class Nemesis:
    """Breaks one server, its proxy and its Postgres, and records it."""

    def __init__(self, server: Server, cluster: Cluster, line: Line, history: History, seed: str) -> None:
        self._server = server
        self._cluster = cluster
        self._line = line
        self._history = history
        self._dice = random.Random(f"{seed}-nemesis")

    async def storm(self, seconds: float) -> None:
        """kill -9 of workers every 1-3 s, a crash of Postgres every 8-12 s, and cut connections and lost responses between."""
        async with asyncio.TaskGroup() as group:
            until = time.monotonic() + seconds
            for fault, pause_min, pause_max in (
                (self.kill_worker, 1.0, 3.0),
                (self.crash_postgres, 8.0, 12.0),
                (self.cut_line, 0.5, 2.0),
                (self.lose_responses, 0.5, 2.0),
            ):
                group.create_task(self._repeat(fault, pause_min, pause_max, until))

    async def outages(self) -> None:
        """Freezes, stops and fills up Postgres, one after the other, with time to recover between."""
        for outage in (self.freeze_postgres, self.stop_postgres, self.fill_postgres):
            await asyncio.sleep(_BETWEEN_OUTAGES_SECONDS)
            # Without a worker, requests would wait in the socket whatever the state of Postgres.
            await self._until_serving(len(self._server.workers()))
            await outage()
        await asyncio.sleep(_BETWEEN_OUTAGES_SECONDS)

    def counts(self, kills_in_flight_min: int, acknowledged_min: int) -> bool:
        """Whether enough faults have happened for the run to count."""
        return self._history.kills_in_flight() >= kills_in_flight_min and self._history.acknowledged >= acknowledged_min

    async def kill_worker(self) -> None:
        """Kills a worker, mostly while another one serves; otherwise no commits are in flight."""
        workers = self._server.serving_workers()
        if len(workers) > 1 or (workers and self._dice.random() < _LAST_ONE_SHARE):
            self._history.kills.append(time.monotonic())
            self._server.kill(self._dice.choice(workers))
            self._history.count("worker killed")

    async def stop_worker(self, *, rudely: bool = False) -> None:
        """Stops a worker gracefully. rudely -- with kill -9 instead: the negative control of its check."""
        workers = await self._until_serving(1)
        if not workers:
            return
        self._history.stops.append(time.monotonic())
        if rudely:
            self._server.kill(self._dice.choice(workers))
        else:
            self._server.ask_to_stop(self._dice.choice(workers))
        self._history.count("worker asked to stop")

    async def _until_serving(self, workers_min: int) -> list[int]:
        """The serving workers, once there are enough of them, or after a timeout."""
        until = time.monotonic() + _SERVING_SECONDS_MAX
        workers = self._server.serving_workers()
        while len(workers) < workers_min and time.monotonic() < until:
            await asyncio.sleep(0.1)
            workers = self._server.serving_workers()
        return workers

    async def crash_postgres(self) -> None:
        await self._cluster.crash()
        await self._cluster.start()
        self._history.count("postgres crashed")

    async def cut_line(self) -> None:
        self._line.cut(self._dice, 0.3)
        self._history.count("connections cut")

    async def lose_responses(self) -> None:
        self._line.lose_responses(self._dice, 0.5)
        self._history.count("responses lost")

    async def freeze_postgres(self) -> None:
        self._cluster.freeze()
        await self._outage("postgres frozen", FROZEN_SECONDS, self._thawed)

    async def stop_postgres(self) -> None:
        await self._cluster.crash()
        await self._outage("postgres stopped", STOPPED_SECONDS, self._cluster.start)

    async def fill_postgres(self) -> None:
        taken = await self._cluster.fill_up()

        async def leave() -> None:
            for connection in taken:
                await connection.close()

        await self._outage("connections used up", FULL_SECONDS, leave, silent=False)

    async def _thawed(self) -> None:
        self._cluster.thaw()

    async def _outage(self, kind: str, seconds: float, end: Callable[[], Coroutine[Any, Any, None]], *, silent: bool = True) -> None:
        began = time.monotonic()
        await asyncio.sleep(seconds)
        ended = time.monotonic()
        await end()
        self._history.outages.append(Outage(kind, began, ended, time.monotonic(), silent))
        self._history.count(kind)

    async def _repeat(self, fault: Callable[[], Coroutine[Any, Any, None]], pause_min: float, pause_max: float, until: float) -> None:
        while True:
            pause = self._dice.uniform(pause_min, pause_max)
            if time.monotonic() + pause > until:
                return
            await asyncio.sleep(pause)
            await fault()
