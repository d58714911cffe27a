"""Verifies tombstones against the log, and applies them to the parts they cover.

A part is closed at its own `valid_to`, or at that of a tombstone that covers it until a job has updated the part.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from ..domain.read_models.definitions import Row
from ..domain.read_models.rows import PARTS_CLOSED_INLINE_MAX, ClosedParts, multirange


def expected_tombstones(parts_closed: Sequence[ClosedParts], parts: Sequence[Row], found: Sequence[Row]) -> list[Row]:
    """The expected tombstones of one table: those found that the log confirms, and those that parts still need.

    parts_closed -- what the log closed (domain/read_models/rows.py).
    parts, found -- the rows found in table_parts and in part_tombstones.
    """
    keys = {row[:3] for row in found}
    open_parts: set[tuple[int, int]] | None = None
    expected = []
    for table_id, kind, valid_to, ordinals in parts_closed:
        wanted = (table_id, kind, valid_to) in keys
        if not wanted and len(ordinals) > PARTS_CLOSED_INLINE_MAX:
            if open_parts is None:
                open_parts = {(row[1], row[2]) for row in parts if row[4] is None}
            wanted = any((kind, ordinal) in open_parts for ordinal in ordinals)
        if wanted:
            expected.append((table_id, kind, valid_to, multirange(ordinals)))
    return expected


def with_tombstones(parts: list[Row], tombstones: Sequence[Row]) -> list[Row]:
    """Rows of table_parts with the `valid_to` that readers see."""
    if not tombstones:
        return parts
    ranges: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for _, kind, valid_to, ordinals in tombstones:
        ranges[kind] += [(start, end, valid_to) for start, end in _bounds(ordinals)]
    for of_kind in ranges.values():
        of_kind.sort()
    return [row if row[4] is not None else (*row[:4], _closed_at(ranges[row[1]], row[2]), *row[5:]) for row in parts]


def _closed_at(ranges: Sequence[tuple[int, int, int]], ordinal: int) -> int | None:
    at = bisect_right(ranges, ordinal, key=lambda bounds: bounds[0]) - 1
    return ranges[at][2] if at >= 0 and ordinal < ranges[at][1] else None


def _bounds(ordinals: str) -> list[tuple[int, int]]:
    """The inverse of `multirange`, for ranges in Postgres's canonical form."""
    found = []
    for text in filter(None, ordinals.strip("{}").split("),")):
        start, _, end = text.strip("[()").partition(",")
        found.append((int(start or _LOWEST), int(end or _HIGHEST)))
    return found


_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
