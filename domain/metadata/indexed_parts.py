"""An indexed list of schemas, specs, orders or versions. Parts are found by id and by equality without a linear search."""

import heapq
from collections.abc import Callable, Hashable, Iterable

from .fields import Json, next_id


class IndexedParts:
    """Parts in their order. Finding, adding and removing a part takes constant time.

    by_id -- the present parts.
    changed -- whether any was added or removed.
    """

    def __init__(
        self, parts: Iterable[Json], id_key: str, key: Callable[[Json], Hashable], rough_key: Callable[[Json], Hashable] | None = None
    ) -> None:
        """key -- equal for two parts that differ only in their ids. rough_key -- a cheap key that is equal if `key` is; `key` is computed
        only for parts with equal rough keys.
        """
        self.by_id: dict[int, Json] = {part[id_key]: part for part in parts}
        self.changed = False
        self._id_key, self._key, self._rough_key = id_key, key, rough_key or _none
        self._keys: dict[int, Hashable] = {}
        self._ids: dict[Hashable, dict[int, None]] = {}
        self._not_keyed: dict[Hashable, list[int]] | None = None
        # Heap of the negative ids, highest first. Removed ones are dropped when they reach the top.
        self._negated_ids: list[int] | None = None

    def id_of_equal(self, part: Json) -> int | None:
        """The id of the first present part that differs from `part` at most in its id; None if there is none."""
        if self._not_keyed is None:
            self._not_keyed = {}
            for part_id, known in self.by_id.items():
                self._not_keyed.setdefault(self._rough_key(known), []).append(part_id)
        for part_id in self._not_keyed.pop(self._rough_key(part), ()):
            if part_id in self.by_id:
                self._remember(part_id, self._key(self.by_id[part_id]))
        same = self._ids.get(self._key(part))
        return next(iter(same)) if same else None

    def next_id(self, least: int) -> int:
        """`least`, or the id after the highest present one. Raises IllegalArgument if there is none."""
        if self._negated_ids is None:
            self._negated_ids = [-part_id for part_id in self.by_id]
            heapq.heapify(self._negated_ids)
        while self._negated_ids and -self._negated_ids[0] not in self.by_id:
            heapq.heappop(self._negated_ids)
        highest = -self._negated_ids[0] if self._negated_ids else least - 1
        return least if highest < least else next_id(self._id_key, highest)

    def add(self, part: Json) -> None:
        """Appends a part for which `id_of_equal` found none."""
        part_id: int = part[self._id_key]
        self.by_id[part_id] = part
        self._remember(part_id, self._key(part))
        if self._negated_ids is not None:
            heapq.heappush(self._negated_ids, -part_id)
        self.changed = True

    def remove(self, part_ids: Iterable[int]) -> None:
        """Removes the parts with these ids, if present."""
        for part_id in part_ids:
            if self.by_id.pop(part_id, None) is not None and part_id in self._keys:
                del self._ids[self._keys.pop(part_id)][part_id]
        self.changed = True

    def _remember(self, part_id: int, key: Hashable) -> None:
        self._keys[part_id] = key
        self._ids.setdefault(key, {})[part_id] = None


def _none(_: Json) -> None:
    return None
