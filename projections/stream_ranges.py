"""Ranges of streams, so that several processes divide the work on a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

_LOWEST, _HIGHEST = UUID(int=0), UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class StreamRange:
    """The streams from `first` to `last`, inclusive."""

    first: UUID
    last: UUID


def parts_between(boundaries: Sequence[UUID]) -> list[StreamRange]:
    """Divides all ids into parts; each boundary is the first id of one."""
    firsts = sorted({_LOWEST, *boundaries})
    lasts = [UUID(int=first.int - 1) for first in firsts[1:]]
    return [StreamRange(first, last) for first, last in zip(firsts, [*lasts, _HIGHEST], strict=True)]


ALL_STREAMS: Final = StreamRange(_LOWEST, _HIGHEST)
