"""Settings of the C library's memory allocator for processes that serve or handle large tables."""

import ctypes
import sys

LARGE_BLOCK_BYTES_MIN = 128 * 1024
"""Blocks from here on are mapped by themselves, and go back to the system when they are freed."""
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def return_large_blocks() -> None:
    """Keep glibc from raising its own threshold to 32 MiB once blocks that large were freed: a heap with holes is never given back."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES_MIN)
            # Each thread would else have a heap of its own, with holes of its own.
            mallopt(_M_ARENA_MAX, 1)
