"""A cache of names and the ids they refer to. An entry may be outdated: the object's state must confirm it."""

from uuid import UUID

from cachetools import LRUCache

from ...domain.claims import NameClaim
from ...domain.held_bytes import held_bytes

NAMES_CACHED_BYTES_MAX = 8 * 1024 * 1024
"""About 10,000 ordinary names, or 200 of the longest."""

Called = tuple[str, UUID, tuple[str, ...], str]
"""The key of a table or view: kind, warehouse, and the name keys of its namespace's levels and of its name."""


class NameCache:
    """Claims by the names in requests."""

    def __init__(self) -> None:
        # The value includes the key, so that the key's size is counted.
        self._known: LRUCache[Called, tuple[Called, NameClaim]] = LRUCache(NAMES_CACHED_BYTES_MAX, getsizeof=held_bytes)

    def get(self, called: Called) -> NameClaim | None:
        known = self._known.get(called)
        return None if known is None else known[1]

    def put(self, called: Called, claim: NameClaim) -> None:
        self._known[called] = (called, claim)

    def forget(self, called: Called, claim: NameClaim) -> None:
        """Removes the entry if it still refers to this claim."""
        if self.get(called) == claim:
            del self._known[called]
