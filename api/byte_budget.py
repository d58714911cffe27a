"""Limits the bytes that one server holds for clients that send or read slowly."""

from collections.abc import Hashable, Sequence, Sized

from aiohttp import web
from cachetools import LRUCache

from ..domain.byte_pieces import memory_bytes_of
from ..domain.errors import TooManyRequests

UNCOUNTED_BYTES_MAX = 64 * 1024
"""A body with its parsed form, or a response, up to this size is not counted: the limit on connections is enough, and small requests
succeed even if a budget is exhausted."""
RETRY_AFTER_SECONDS = 1
_RESPONSES_NOTED_MAX = 1_000


class BudgetExhausted(TooManyRequests, status=429, type="TooManyRequestsException"):
    """Too many bytes are held for other requests; nothing was done."""

    retry_after_seconds = RETRY_AFTER_SECONDS


class ByteBudget:
    """At most `bytes_max` bytes at a time. A single holder may have more, so that every permitted size is accepted eventually.

    what -- named in the error message. reserved_bytes -- bytes at present.
    """

    def __init__(self, what: str, bytes_max: int) -> None:
        self._what, self._bytes_max = what, bytes_max
        self._contents: dict[int, int] = {}
        self.reserved_bytes = 0

    def reserve(self, size: int, *, already_held: int = 0) -> None:
        """already_held -- bytes that the same holder has. Raises BudgetExhausted."""
        if self.reserved_bytes > already_held and self.reserved_bytes + size > self._bytes_max:
            raise BudgetExhausted(f"Other requests use all the memory reserved for {self._what}; try again later")
        self.reserved_bytes += size

    def release(self, size: int) -> None:
        self.reserved_bytes -= size

    def reserve_content(self, content: Sized) -> "ContentReservation":
        """Reserves `content`, which is counted once for all its holders: responses from a cache are one object. Raises BudgetExhausted."""
        return self.reserve_contents([content])[0]

    def reserve_contents(self, contents: Sequence[Sized]) -> "list[ContentReservation]":
        """As `reserve_content`, for all of the contents or none. Raises BudgetExhausted."""
        size = self.size_of(contents)
        if size:
            self.reserve(size)
        for content in contents:
            self._contents[id(content)] = self._contents.get(id(content), 0) + 1
        return [ContentReservation(self, content) for content in contents]

    def size_of(self, contents: Sequence[Sized]) -> int:
        """Bytes in memory of the contents that are not reserved yet."""
        return sum(memory_bytes_of(content) for content in contents if id(content) not in self._contents)

    def release_content(self, content: Sized) -> None:
        holders = self._contents.pop(id(content)) - 1
        if holders:
            self._contents[id(content)] = holders
        else:
            self.release(memory_bytes_of(content))


class BudgetReservation:
    """The bytes that one request has reserved of a budget, until `release` or the object's deletion."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget, self._size = budget, 0

    def reserve(self, size: int) -> None:
        """Raises BudgetExhausted."""
        self._budget.reserve(size, already_held=self._size)
        self._size += size

    def raise_to(self, size: int) -> None:
        """Increases the bytes reserved to at least `size`. Raises BudgetExhausted."""
        if size > self._size:
            self.reserve(size - self._size)

    def release(self) -> None:
        """Idempotent."""
        self._budget.release(self._size)
        self._size = 0

    __del__ = release


class ContentReservation:
    """One reservation of some content, released like a BudgetReservation. It keeps the content alive: contents are counted by identity."""

    __slots__ = ("_budget", "_content")

    def __init__(self, budget: ByteBudget, content: Sized) -> None:
        self._budget = budget
        self._content: Sized | None = content

    def release(self) -> None:
        """Idempotent."""
        if self._content is not None:
            self._budget.release_content(self._content)
            self._content = None

    __del__ = release


class LargeResponses:
    """The sizes of the latest large responses, so that memory is reserved before the next one is read.

    Reading a response takes several times its size, so a response that does not fit the budget should not be read at all. They
    are recorded by operation and object (ApiRequest.response_key), however the request spells it.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        # By the key's hash, since a key may have 64 KB. On a collision, too much or too little is reserved, and nothing else happens.
        self._sizes: LRUCache[int, int] = LRUCache(_RESPONSES_NOTED_MAX)

    def __len__(self) -> int:
        return len(self._sizes)

    def expect(self, key: Hashable) -> BudgetReservation | None:
        """Memory for a response that was large the last time; None for others. Raises BudgetExhausted."""
        size = self._sizes.get(hash(key))
        if size is None:
            return None
        reservation = BudgetReservation(self._budget)
        reservation.reserve(size)
        return reservation

    def note(self, key: Hashable, size: int, *, varies: bool = False) -> None:
        """Records the size of a response. A small one removes the entry. If sizes vary (`varies`), the entry keeps the largest."""
        if size <= UNCOUNTED_BYTES_MAX and not varies:
            self._sizes.pop(hash(key), None)
            return
        self._sizes[hash(key)] = max(size, self._sizes.get(hash(key), 0)) if varies else size


BODY_RESERVATION: web.RequestKey[BudgetReservation] = web.RequestKey("body_reservation", BudgetReservation)
"""The memory that is reserved for a request's body, until the handler has ended."""
