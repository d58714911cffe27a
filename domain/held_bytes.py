"""The memory that small values take, for limits of caches."""

import sys


def held_bytes(value: object) -> int:
    """About the bytes of a value; of tuples and lists with what is in them."""
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(map(held_bytes, value))
    return sys.getsizeof(value)
