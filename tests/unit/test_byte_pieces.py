"""Bytes in pieces: the same bytes, however they are cut."""

from domain.byte_pieces import JOINED_BYTES_MAX, BytePieces, few

LARGE = b"x" * JOINED_BYTES_MAX


def test_pieces_are_the_bytes_they_are_made_of() -> None:
    """Their length is that of all."""
    pieces = BytePieces((b"ab", memoryview(b"cde")[1:], b""))
    assert (b"abde", 4) == (pieces.joined(), len(pieces))
    assert [b"ab", b"de", b""] == [bytes(piece) for piece in pieces]


def test_small_pieces_are_joined_and_large_ones_are_not_copied() -> None:
    """Each large one is the very same object."""
    pieces = few([b"a", b"b", LARGE, LARGE, b"c", b"d"])
    assert [b"ab", LARGE, LARGE, b"cd"] == pieces
    assert pieces[1] is LARGE
    assert [] == few([])
    assert [b"ab"] == few([b"a", b"b"])
