"""Bytes in pieces: of a large document nearly all bytes are those of the one before, or of a row, and joining them copies them."""

from collections.abc import Iterable, Iterator

JOINED_BYTES_MAX = 256 * 1024
"""Below this, joining costs less than handling pieces does."""


def exact(data: bytes) -> bytes:
    """The same bytes in as much memory as they need, for what is kept: orjson's results take 4 KiB at least, up to twice their length."""
    return bytes(memoryview(data))


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

    def __eq__(self, other: object) -> bool:
        """Whether they are the same pieces; the same bytes cut elsewhere are not."""
        return self._pieces == other._pieces if isinstance(other, BytePieces) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def joined(self) -> bytes:
        return b"".join(self._pieces)


Content = bytes | BytePieces
"""What is written or sent: joined, or of a large document in pieces."""


def content_of(pieces: Iterable[bytes]) -> Content:
    """Small pieces are joined with their neighbours, large ones are left as they are; bytes where there is none of these."""
    few: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < JOINED_BYTES_MAX:
            small.append(piece)
            continue
        few += [b"".join(small), piece] if small else [piece]
        small = []
    last = b"".join(small)
    return BytePieces([*few, last] if last else few) if few else last


def around(opening: bytes, content: Content, closing: bytes) -> Content:
    """The content between two others; it is not copied where it is in pieces."""
    if isinstance(content, BytePieces):
        # Not `*content`: a list makes room for as many as its `len` says, and that is bytes.
        return BytePieces((opening, *content._pieces, closing))
    return b"".join((opening, content, closing))


def joined(content: Content) -> bytes:
    """The content as one."""
    return content.joined() if isinstance(content, BytePieces) else content
