"""A cache of names and the ids they refer to. An entry may be outdated: the object's state must confirm it."""

from uuid import UUID

from cachetools import LRUCache

from ...domain.claims import NameClaim
from ...domain.memory_bytes import memory_bytes

NAMES_CACHED_BYTES_MAX = 8 * 1024 * 1024
"""About 10,000 ordinary names, or 200 of the longest."""

TabularKey = tuple[str, UUID | None, UUID, tuple[str, ...], str]
"""The key of a table or view: kind, the warehouse's last event, warehouse, and the name keys of its namespace's levels and of its name.

A move of a namespace changes paths below it, and is an event of the warehouse too. Names that were cached before it are not found
after it.
"""


class NameCache:
    """Maps names in requests to the claims that they resolved to."""

    def __init__(self) -> None:
        # The value includes the key, so that the key's size is counted.
        self._cache: LRUCache[TabularKey, tuple[TabularKey, NameClaim]] = LRUCache(NAMES_CACHED_BYTES_MAX, getsizeof=memory_bytes)

    def get(self, key: TabularKey) -> NameClaim | None:
        cached = self._cache.get(key)
        return None if cached is None else cached[1]

    def put(self, key: TabularKey, claim: NameClaim) -> None:
        self._cache[key] = (key, claim)

    def forget(self, key: TabularKey, claim: NameClaim) -> None:
        """Removes the entry if it still refers to this claim."""
        if self.get(key) == claim:
            del self._cache[key]
