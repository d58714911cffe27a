"""Progress reports of a long fold of the log."""

from collections.abc import Callable

Watch = Callable[[int, int], None]
"""Called with the amount done and the total, in a unit of the caller's."""


def not_watched(_done: int, _all: int, /) -> None:
    """Ignores progress."""
