"""The memory of small values, for the limits of caches."""

import sys


def memory_bytes(value: object) -> int:
    """The approximate memory of a value in bytes; for tuples and lists including their elements."""
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(map(memory_bytes, value))
    return sys.getsizeof(value)
