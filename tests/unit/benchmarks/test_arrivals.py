"""Arrivals at a fixed rate, independent of the responses."""

import asyncio
from itertools import pairwise

import pytest

from benchmarks.arrivals import Arrivals, Ticker, clock


def test_arrivals_are_even() -> None:
    """Arrival i is due at i / rate after the start."""
    arrivals = Arrivals(rate=4, seconds=1, started=100.0)
    assert [100.0, 100.25, 100.5, 100.75] == list(arrivals.due(200.0))
    assert arrivals.finished


def test_a_stall_leaves_no_arrival_out() -> None:
    """Arrivals that were due during a stall keep their times, so that the stall counts for each of them."""
    arrivals = Arrivals(rate=10, seconds=1, started=0.0)
    assert [0.0] == list(arrivals.due(0.05))
    assert pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5]) == list(arrivals.due(0.55))
    assert [] == list(arrivals.due(0.55))
    assert not arrivals.finished


async def test_the_ticker_is_finer_than_the_event_loop() -> None:
    """Twenty ticks of half a millisecond take ten milliseconds, not twenty as with a timer rounded up to milliseconds."""
    ticks: list[float] = []
    done = asyncio.Event()

    def tick() -> None:
        ticks.append(clock())
        if len(ticks) >= 20:
            done.set()

    started = clock()
    ticker = Ticker(0.0005, tick)
    async with asyncio.timeout(4):
        await done.wait()
    ticker.close()
    # Ticks that are due while the machine is busy are merged. No coarser timer meets the limit below.
    assert ticks[-1] - started >= 0.0095
    assert min(later - earlier for earlier, later in pairwise(ticks)) < 0.00095
