"""Cached ids of names. An entry is a guess that the state it leads to must confirm."""

from uuid import UUID

from cachetools import LRUCache

from ...domain.claims import NameClaim
from ...domain.held_bytes import held_bytes

NAMES_CACHED_BYTES_MAX = 8 * 1024 * 1024
"""About 10,000 ordinary names, or 200 of the longest."""

Called = tuple[str, UUID, tuple[str, ...], str]
"""A table or view as requests name it: kind, warehouse, and the keys of its namespace's levels and of its name."""


class NameCache:
    """Claims by what requests called them."""

    def __init__(self) -> None:
        # With what they are called, so that it is counted.
        self._known: LRUCache[Called, tuple[Called, NameClaim]] = LRUCache(NAMES_CACHED_BYTES_MAX, getsizeof=held_bytes)

    def get(self, called: Called) -> NameClaim | None:
        known = self._known.get(called)
        return None if known is None else known[1]

    def put(self, called: Called, claim: NameClaim) -> None:
        self._known[called] = (called, claim)

    def forget(self, called: Called, claim: NameClaim) -> None:
        """The name no longer stands for the claim's owner."""
        if self.get(called) == claim:
            del self._known[called]
