"""Bytes in pieces: most bytes of a large document are those of the document before, and joining them would copy them."""

from collections.abc import Iterable, Iterator, Sized

JOINED_BYTES_MAX = 256 * 1024
"""Below this, joining costs less than handling pieces does."""


def exact(data: bytes) -> bytes:
    """The same bytes in as much memory as they need, for what is kept: orjson's results take 4 KiB at least, up to twice their length."""
    return bytes(memoryview(data))


class BytePieces:
    """Bytes, in order, some of them shared with others of their kind; `len` is how many bytes they are.

    held_bytes -- what they take in memory, where it is given: fewer, where one piece stands in many places.
    """

    __slots__ = ("_pieces", "_size", "held_bytes")

    def __init__(self, pieces: Iterable[bytes | memoryview], *, held_bytes: int | None = None) -> None:
        self._pieces = tuple(pieces)
        self._size = sum(map(len, self._pieces))
        self.held_bytes = self._size if held_bytes is None else held_bytes

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return iter(self._pieces)

    def __eq__(self, other: object) -> bool:
        """Whether they are the same pieces; the same bytes cut elsewhere are not."""
        return self._pieces == other._pieces if isinstance(other, BytePieces) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


Content = bytes | memoryview | BytePieces
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


def small_joined(content: Content, bytes_max: int) -> Iterator[bytes | memoryview]:
    """The content's pieces; small ones are joined with their neighbours, up to `bytes_max` at a time."""
    small: list[bytes | memoryview] = []
    size = 0
    for piece in pieces_of(content):
        if size + len(piece) > bytes_max:
            if small:
                yield b"".join(small)
            small, size = [], 0
            if len(piece) > bytes_max:
                yield piece
                continue
        small.append(piece)
        size += len(piece)
    if small:
        yield b"".join(small)


def joined(content: Content) -> bytes:
    """The content as one."""
    return b"".join(content) if isinstance(content, BytePieces) else bytes(content)


def pieces_of(content: Content) -> Iterable[bytes | memoryview]:
    """The content, whose pieces may be written one after the other."""
    return content if isinstance(content, BytePieces) else (content,)


def held_bytes_of(content: Sized) -> int:
    """What a content, or a listing, takes in memory: fewer bytes than it has, where one piece stands in many places."""
    return content.held_bytes if isinstance(content, BytePieces) else len(content)
