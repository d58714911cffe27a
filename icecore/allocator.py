"""Settings of the C library's memory allocator for processes that serve or handle large tables."""

import ctypes
import sys

LARGE_BLOCK_BYTES_MIN = 128 * 1024
"""Larger blocks are mapped separately and are returned to the system when they are freed."""
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def return_large_blocks() -> None:
    """Keeps glibc from raising this threshold to 32 MiB after large blocks are freed. A fragmented heap is not returned to the system."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES_MIN)
            # One arena for all threads. Each arena is a heap with its own fragmentation.
            mallopt(_M_ARENA_MAX, 1)
