"""Runs a blocking function in a thread of its own, which is not one of the pool that everything else shares."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")


class ThreadNotStartedError(RuntimeError):
    """The process cannot start another thread; the function was not called."""


async def in_separate_thread(function: Callable[[], _T], name: str) -> _T:
    """The result of `function`, or what it raises. If the caller is cancelled, the thread continues and its result is dropped.

    The thread is a daemon, so that one that never returns does not keep the process from ending. Raises ThreadNotStartedError.
    """
    loop = asyncio.get_running_loop()
    returned: asyncio.Future[_T] = loop.create_future()

    def give(set_outcome: Callable[[], None]) -> None:
        if not returned.done():
            set_outcome()

    def run() -> None:
        try:
            outcome = partial(returned.set_result, function())
        except Exception as error:
            outcome = partial(returned.set_exception, error)
        # The event loop may have been closed meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(give, outcome)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise ThreadNotStartedError(str(error)) from None
    return await returned
