"""Bytes in pieces: the content is the same, however it is divided."""

import itertools

import pytest

from icecore.domain.byte_pieces import JOINED_BYTES_MAX, BytePieces, content_of, joined, small_joined, wrapped

LARGE = b"x" * JOINED_BYTES_MAX


def test_pieces_are_the_bytes_they_are_made_of() -> None:
    """Their length is the total."""
    pieces = BytePieces((b"ab", memoryview(b"cde")[1:], b""))
    assert (b"abde", 4) == (joined(pieces), len(pieces))
    assert [b"ab", b"de", b""] == [bytes(piece) for piece in pieces]


def test_small_pieces_are_joined_and_large_ones_are_not_copied() -> None:
    """Each large piece is the same object."""
    content = content_of([b"a", b"b", LARGE, LARGE, b"c", b"d"])
    assert isinstance(content, BytePieces)
    assert [b"ab", LARGE, LARGE, b"cd"] == [*content]
    assert [*content][1] is LARGE
    assert BytePieces([LARGE]) == content_of([LARGE])
    assert [False, False] == [BytePieces([one]) == BytePieces([other]) for one, other in ((b"a", b"b"), (b"b", b"a"))]
    assert b"ab" * 2 + 2 * LARGE == b"ab" + joined(content_of([b"ab", LARGE, LARGE]))


def test_where_all_is_small_there_are_no_pieces() -> None:
    """The result is bytes."""
    assert (b"", b"ab") == (content_of([]), content_of([b"a", b"b"]))
    assert b"(ab)" == wrapped(b"(", b"ab", b")")


def test_pieces_go_between_others_without_being_copied() -> None:
    """They are equal to the pieces made separately."""
    content = wrapped(b"(", content_of([LARGE, b"a"]), b")")
    assert isinstance(content, BytePieces)
    assert [*content][1] is LARGE
    assert (b"(" + LARGE + b"a)", len(LARGE) + 3) == (joined(content), len(content))
    assert BytePieces((b"(", LARGE, b"a", b")")) == content != BytePieces((b"(", LARGE, b"b", b")"))


@pytest.mark.parametrize("sizes", [[], [1], [10], [11], [4, 4, 4], [4, 30, 4], [10, 10], [0, 11, 0, 3]])
def test_small_pieces_are_joined_up_to_a_bound_and_large_ones_stay(sizes: list[int]) -> None:
    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    found = [bytes(piece) for piece in small_joined(BytePieces(pieces), 10)]
    assert b"".join(pieces) == b"".join(found)
    assert all(len(piece) <= 10 or piece in pieces for piece in found)
    small = [len(piece) for piece in found if len(piece) <= 10]
    assert all(a + b > 10 for a, b in itertools.pairwise(small)) or any(size > 10 for size in sizes)
