"""Arguments and results of queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from ..domain.byte_pieces import Content

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One page of a listing: items whose name key is greater than `after`, at most `size` (None: all).

    with_objects -- also the ids and the protection of the items.
    """

    after: str | None = None
    size: int | None = None
    with_objects: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items in the order of their name keys.

    next_key -- the `after` of the next page, None on the last. memory_bytes -- what the lists take in memory.
    ids, protected -- of the items, in their order; None if not requested.
    """

    items: list[Item]
    next_key: str | None
    memory_bytes: int
    ids: list[UUID] | None = None
    protected: list[bool] | None = None


@dataclass(frozen=True, slots=True)
class NamespaceResult:
    levels: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableResult:
    """An encoded LoadTableResult; `body` is None if the client's ETag is current (304)."""

    etag: str
    body: Content | None
