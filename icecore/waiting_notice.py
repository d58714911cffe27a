"""Says on standard error what a command waits for, so that it is not silent for long."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

NOTICE_SECONDS = 3.0
"""How long a command may wait in silence."""
CHANGE_SECONDS = 1.0
"""How often a reason that changes is looked at."""


@contextmanager
def noticed(what: str | Callable[[], str]) -> Iterator[None]:
    """Prints `waiting for <what>` if the block takes longer than NOTICE_SECONDS, and again whenever `what` changes.

    In a thread, because the block may keep the event loop busy.
    """
    ended = threading.Event()

    def watch() -> None:
        said, seconds = "", NOTICE_SECONDS
        while not ended.wait(seconds):
            text, seconds = what if isinstance(what, str) else what(), CHANGE_SECONDS
            if text != said:
                print_notice(Console(stderr=True), text)
                said = text

    thread = threading.Thread(target=watch, name="waiting-notice", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def print_notice(console: Console, what: str) -> None:
    console.print(f"waiting for {what}", markup=False, highlight=False, soft_wrap=True)
