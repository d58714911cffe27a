"""Reads of documents up to a size: a larger one is answered by its size, so that room is made before it is read."""

from dataclasses import dataclass

BYTES_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class LargeDocument:
    """A document that has more bytes than were asked for; none of them was read."""

    size: int
