"""How far a long fold of the log is: what reports it, and to whom."""

from collections.abc import Callable

Watch = Callable[[int, int], None]
"""Is called with what was done, and all there is to do, in one unit of the caller's."""


def not_watched(_done: int, _all: int, /) -> None:
    """For who does not look."""
