"""When requests of a fixed-rate run are due. The timer does not wait for responses, so that a stall is counted in full."""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable, Iterator

_CLOCK_MONOTONIC = 1
_NANOSECONDS = 1_000_000_000


class Arrivals:
    """`rate` arrivals per second for `seconds`, evenly spaced: arrival i is due at started + i / rate, whether or not earlier ones are
    answered.
    """

    def __init__(self, rate: float, seconds: float, started: float) -> None:
        assert rate > 0
        self.rate = rate
        self.started = started
        self.count = round(rate * seconds)
        self._next = 0

    @property
    def finished(self) -> bool:
        return self._next >= self.count

    def due(self, now: float) -> Iterator[float]:
        """The times of the arrivals that are due by `now` and were not returned before."""
        while not self.finished:
            at = self.started + self._next / self.rate
            if at > now:
                return
            self._next += 1
            yield at


class _Interval(ctypes.Structure):
    """`struct itimerspec`: the period, and the time to the first tick."""

    _fields_ = [
        ("period_seconds", ctypes.c_long),
        ("period_nanoseconds", ctypes.c_long),
        ("first_seconds", ctypes.c_long),
        ("first_nanoseconds", ctypes.c_long),
    ]


class Ticker:
    """Calls `tick` every `period` seconds. It uses a Linux timerfd, because event loops round their timers up to milliseconds."""

    def __init__(self, period: float, tick: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tick = tick
        libc = ctypes.CDLL(None, use_errno=True)
        self._file: int = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        nanoseconds = max(int(period * _NANOSECONDS), 1)
        parts = divmod(nanoseconds, _NANOSECONDS)
        if libc.timerfd_settime(self._file, 0, ctypes.byref(_Interval(*parts, *parts)), None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        self._loop.add_reader(self._file, self._fired)

    def _fired(self) -> None:
        os.read(self._file, 8)
        self._tick()

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)


def clock() -> float:
    """Monotonic seconds, the clock of every measurement."""
    return time.perf_counter()
