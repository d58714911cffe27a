"""Reads documents up to a size. For a larger document only the size is returned, so that memory can be reserved first."""

from dataclasses import dataclass

BYTES_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class LargeDocument:
    """A document that is larger than the limit, and was not read."""

    size: int
