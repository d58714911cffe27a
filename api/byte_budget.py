"""Limits the bytes that one server holds for clients that send or read slowly."""

from collections.abc import Hashable, Sequence, Sized

from aiohttp import web
from cachetools import LRUCache

from ..domain.byte_pieces import held_bytes_of
from ..domain.errors import TooManyRequests

UNCOUNTED_BYTES_MAX = 64 * 1024
"""A body with what it takes once it is parsed, or an answer, up to this size is not counted: the bound on connections is enough, and small
requests pass when a budget is used up."""
RETRY_AFTER_SECONDS = 1
_ADDRESSES_MAX = 1_000


class BudgetUsedUp(TooManyRequests, status=429, type="TooManyRequestsException"):
    """Too many bytes are held for other requests; nothing was done."""

    retry_after_seconds = RETRY_AFTER_SECONDS


class ByteBudget:
    """At most `bytes_max` bytes at one time; one holder alone may have more, so that no permitted size is refused for ever.

    what -- opens the refusal. held -- bytes at present.
    """

    def __init__(self, what: str, bytes_max: int) -> None:
        self._what, self._bytes_max = what, bytes_max
        self._contents: dict[int, int] = {}
        self.held = 0

    def take(self, size: int, *, had: int = 0) -> None:
        """`had` is what the same holder has already. Raises BudgetUsedUp."""
        if self.held > had and self.held + size > self._bytes_max:
            raise BudgetUsedUp(f"{self._what} of other requests use all the memory reserved for them; try again later")
        self.held += size

    def give_back(self, size: int) -> None:
        self.held -= size

    def hold(self, content: Sized) -> "HeldContent":
        """One share of `content`, which counts once however many hold it: answers from a cache are one object. Raises BudgetUsedUp."""
        return self.hold_all([content])[0]

    def hold_all(self, contents: Sequence[Sized]) -> "list[HeldContent]":
        """The same of several, all or none. Raises BudgetUsedUp."""
        size = self.size_of(contents)
        if size:
            self.take(size)
        for content in contents:
            self._contents[id(content)] = self._contents.get(id(content), 0) + 1
        return [HeldContent(self, content) for content in contents]

    def size_of(self, contents: Sequence[Sized]) -> int:
        """What those that nobody holds take in memory."""
        return sum(held_bytes_of(content) for content in contents if id(content) not in self._contents)

    def let_go(self, content: Sized) -> None:
        holders = self._contents.pop(id(content)) - 1
        if holders:
            self._contents[id(content)] = holders
        else:
            self.give_back(held_bytes_of(content))


class HeldBytes:
    """What one request has of a budget; given back by `release`, at the latest when nothing refers to it any more."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget, self._size = budget, 0

    def take(self, size: int) -> None:
        """Raises BudgetUsedUp."""
        self._budget.take(size, had=self._size)
        self._size += size

    def raise_to(self, size: int) -> None:
        """At least so many bytes altogether. Raises BudgetUsedUp."""
        if size > self._size:
            self.take(size - self._size)

    def release(self) -> None:
        """May be called again."""
        self._budget.give_back(self._size)
        self._size = 0

    __del__ = release


class HeldContent:
    """One share of some content, given back like HeldBytes; it keeps the content, which is counted by its identity."""

    __slots__ = ("_budget", "_content")

    def __init__(self, budget: ByteBudget, content: Sized) -> None:
        self._budget = budget
        self._content: Sized | None = content

    def release(self) -> None:
        """May be called again."""
        if self._content is not None:
            self._budget.let_go(self._content)
            self._content = None

    __del__ = release


class LargeAnswers:
    """How large the counted answers of addresses were, so that room is made before the next one is read.

    An answer takes several times its bytes while it is read: what will find no room should not be read at all. An address is what is
    asked for, not how it is spelled.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        # By the hash of an address, which may have 64 KB; two of one hash only reserve too much or too little.
        self._sizes: LRUCache[int, int] = LRUCache(_ADDRESSES_MAX)

    def __len__(self) -> int:
        return len(self._sizes)

    def expect(self, address: Hashable) -> HeldBytes | None:
        """Room for the answer of an address that had a large one the last time. Raises BudgetUsedUp."""
        size = self._sizes.get(hash(address))
        if size is None:
            return None
        held = HeldBytes(self._budget)
        held.take(size)
        return held

    def note(self, address: Hashable, size: int, *, varies: bool = False) -> None:
        """The size of an answer; a small one needs no room the next time, unless it `varies`: then the largest one counts."""
        if size <= UNCOUNTED_BYTES_MAX and not varies:
            self._sizes.pop(hash(address), None)
            return
        self._sizes[hash(address)] = max(size, self._sizes.get(hash(address), 0)) if varies else size


BODY_HELD: web.RequestKey[HeldBytes] = web.RequestKey("body_held", HeldBytes)
"""What a request's body takes of the budget, until it is answered."""
