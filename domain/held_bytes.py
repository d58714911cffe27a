"""The memory of small values, for the limits of caches."""

import sys


def held_bytes(value: object) -> int:
    """The approximate memory of a value in bytes; for tuples and lists including their elements."""
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(map(held_bytes, value))
    return sys.getsizeof(value)
