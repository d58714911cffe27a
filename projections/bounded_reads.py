"""Reads documents up to a size. For a larger document only the size is returned, so that memory can be reserved first."""

from dataclasses import dataclass

BYTES_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class LargeDocument:
    """A document that has more bytes than were asked for; none of them was read."""

    size: int
