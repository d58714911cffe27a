"""What names stood for when this process last looked: a guess, proved by the state it leads to."""

from collections import OrderedDict
from uuid import UUID

from domain.claims import NameClaim
from domain.held_bytes import held_bytes

NAMES_CACHED_BYTES_MAX = 8 * 1024 * 1024
"""About 10,000 ordinary names, or 200 of the longest."""

Called = tuple[str, UUID, tuple[str, ...], str]
"""A table or view as requests name it: kind, warehouse, and the keys of its namespace's levels and of its name."""


class NameCache:
    """Claims by what requests called them, the longest unused out first."""

    def __init__(self) -> None:
        self._claims: OrderedDict[Called, NameClaim] = OrderedDict()
        self._called: dict[NameClaim, Called] = {}
        self._bytes = 0

    def get(self, called: Called) -> NameClaim | None:
        claim = self._claims.get(called)
        if claim is not None:
            self._claims.move_to_end(called)
        return claim

    def put(self, called: Called, claim: NameClaim) -> None:
        self._remove(called)
        self._claims[called] = claim
        self._called[claim] = called
        self._bytes += held_bytes((called, claim))
        while self._bytes > NAMES_CACHED_BYTES_MAX:
            self._remove(next(iter(self._claims)))

    def forget(self, claim: NameClaim) -> None:
        """The name no longer stands for the claim's owner."""
        called = self._called.get(claim)
        if called is not None and self._claims.get(called) == claim:
            self._remove(called)

    def _remove(self, called: Called) -> None:
        claim = self._claims.pop(called, None)
        if claim is not None:
            self._bytes -= held_bytes((called, claim))
            if self._called.get(claim) == called:
                del self._called[claim]
