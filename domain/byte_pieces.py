"""Bytes in pieces: of a large document nearly all bytes are those of the one before, and joining them would copy them at every commit."""

from collections.abc import Iterable, Iterator

JOINED_BYTES_MAX = 256 * 1024
"""Below this, joining costs less than handling pieces does."""


class BytePieces:
    """Bytes, in order, some of them shared with others of their kind; `len` is how many bytes they are."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._pieces)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def few(pieces: Iterable[bytes]) -> list[bytes]:
    """The same bytes in fewer pieces: what is small is joined with its neighbours."""
    joined: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < JOINED_BYTES_MAX:
            small.append(piece)
            continue
        joined += [b"".join(small), piece] if small else [piece]
        small = []
    return [*joined, b"".join(small)] if small else joined
