"""The cache of query results: limited in bytes; each result has tags of the objects that it depends on."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from ..domain.memory_bytes import memory_bytes

Tag = Hashable

# The memory of an entry besides its bytes and its key: tags and Python objects.
ENTRY_OVERHEAD_BYTES = 1_000


@dataclass(slots=True)
class CacheMetrics:
    """Counters for the metrics."""

    hits: int = 0
    misses: int = 0
    bytes_held: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    size_bytes: int
    tags: frozenset[Tag]


class ReadCache:
    """An LRU cache. Invalidating a tag removes all entries that have it.

    Tags may be invalidated while a value is being read from the database. Call `begin_fill` before the read, and pass its ticket to
    `finish_fill`: then a value that was read before its tag was invalidated is not cached.
    """

    def __init__(self, bytes_max: int) -> None:
        self.metrics = CacheMetrics()
        self._bytes_max = bytes_max
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._keys_by_tag: dict[Tag, set[Hashable]] = {}
        self._sequence = 0
        self._filling: dict[int, int] = {}
        self._invalidated_while_filling: dict[Tag, int] = {}
        self._cleared_at = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable) -> Any | None:
        entry = self._entries.get(key)
        if entry is None:
            self.metrics.misses += 1
            return None
        self.metrics.hits += 1
        self._entries.move_to_end(key)
        return entry.value

    def begin_fill(self) -> int:
        """Returns a ticket for a value that is about to be read."""
        self._sequence += 1
        self._filling[self._sequence] = self._sequence
        return self._sequence

    def end_fill(self, ticket: int) -> None:
        """Ends a ticket. Called alone if the read failed, so that there is no value."""
        del self._filling[ticket]
        oldest = next(iter(self._filling), self._sequence)
        while self._invalidated_while_filling and next(iter(self._invalidated_while_filling.values())) <= oldest:
            del self._invalidated_while_filling[next(iter(self._invalidated_while_filling))]

    def finish_fill(self, ticket: int, key: Hashable, value: Any, size_bytes: int, tags: Iterable[Tag]) -> Any:
        """Caches a value, unless one of its tags was invalidated since `begin_fill`, or the value is too large.

        Returns the value, or an equal one that is cached already, as concurrent requests each read their own. Then the compressed form,
        which is cached by identity (api/compression.py), is made only once.
        """
        tags = frozenset(tags)
        size_bytes += ENTRY_OVERHEAD_BYTES + memory_bytes(key)
        stale = self._cleared_at > ticket or any(self._invalidated_while_filling.get(tag, 0) > ticket for tag in tags)
        self.end_fill(ticket)
        if stale or size_bytes > self._bytes_max // 4:
            return value
        held = self._entries.get(key)
        if held is not None and held.value == value:
            value = held.value
        self._remove(key)
        self._entries[key] = _Entry(value, size_bytes, tags)
        for tag in tags:
            self._keys_by_tag.setdefault(tag, set()).add(key)
        self.metrics.bytes_held += size_bytes
        while self.metrics.bytes_held > self._bytes_max:
            self._remove(next(iter(self._entries)))
            self.metrics.evicted += 1
        return value

    def invalidate(self, tag: Tag) -> None:
        """Removes every entry with the tag, and prevents values that are being read from being cached with it."""
        if self._filling:
            self._sequence += 1
            # Moves the tag to the end: the dictionary is ordered by the time of invalidation.
            self._invalidated_while_filling.pop(tag, None)
            self._invalidated_while_filling[tag] = self._sequence
        for key in [*self._keys_by_tag.get(tag, ())]:
            self._remove(key)

    def clear(self) -> None:
        self._sequence += 1
        self._cleared_at = self._sequence
        self._entries.clear()
        self._keys_by_tag.clear()
        self._invalidated_while_filling.clear()
        self.metrics.bytes_held = 0

    def _remove(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.metrics.bytes_held -= entry.size_bytes
        for tag in entry.tags:
            keys = self._keys_by_tag[tag]
            keys.discard(key)
            if not keys:
                del self._keys_by_tag[tag]
