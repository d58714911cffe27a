"""What names stood for when this process last looked: a guess, proved by the state it leads to."""

from collections import OrderedDict
from uuid import UUID

from domain.claims import NameClaim

NAMES_CACHED_MAX = 10_000

Called = tuple[str, UUID, tuple[str, ...], str]
"""A table or view as requests name it: kind, warehouse, and the keys of its namespace's levels and of its name."""


class NameCache:
    """Claims by what requests called them, the longest unused out first."""

    def __init__(self) -> None:
        self._claims: OrderedDict[Called, NameClaim] = OrderedDict()
        self._called: dict[NameClaim, Called] = {}

    def get(self, called: Called) -> NameClaim | None:
        claim = self._claims.get(called)
        if claim is not None:
            self._claims.move_to_end(called)
        return claim

    def put(self, called: Called, claim: NameClaim) -> None:
        self._claims[called] = claim
        self._called[claim] = called
        if len(self._claims) > NAMES_CACHED_MAX:
            _, oldest = self._claims.popitem(last=False)
            self._called.pop(oldest, None)

    def forget(self, claim: NameClaim) -> None:
        """The name no longer stands for the claim's owner."""
        called = self._called.pop(claim, None)
        if called is not None and self._claims.get(called) == claim:
            del self._claims[called]
