"""Dividing the log for a rebuild: every stream is in exactly one part."""

from uuid import UUID

import pytest

from icecore.projections.stream_ranges import StreamRange, parts_between

LOWEST, HIGHEST = UUID(int=0), UUID(int=2**128 - 1)


def test_without_boundaries_there_is_one_part_of_everything() -> None:
    """A small log, or one whose sample is empty."""
    assert [StreamRange(LOWEST, HIGHEST)] == parts_between([])


@pytest.mark.parametrize("boundaries", [[5], [9, 5], [5, 5, 9], [0, 7], [2**128 - 1]])
def test_parts_leave_no_id_out_and_share_none(boundaries: list[int]) -> None:
    """For any sample: the same stream twice, the lowest id, the highest."""
    parts = parts_between([UUID(int=n) for n in boundaries])
    assert LOWEST == parts[0].first
    assert HIGHEST == parts[-1].last
    assert [part.first.int for part in parts[1:]] == [part.last.int + 1 for part in parts[:-1]]
    assert all(part.first <= part.last for part in parts)


def test_each_boundary_begins_a_part() -> None:
    """The boundaries are ids of streams, so no stream is divided."""
    assert [LOWEST, UUID(int=5), UUID(int=9)] == [part.first for part in parts_between([UUID(int=9), UUID(int=5)])]
